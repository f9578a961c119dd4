# SPDX-License-Identifier: Apache-2.0
"""Graphs on the simulated GPU, and differences between three runtime versions.

usage: graphs.py DIR
"""

import ctypes
import os
import time
import unittest

from case import DIR, LONG_MS, Case, gpu, ms


class KernelNode(ctypes.Structure):
    _fields_ = [("func", ctypes.c_void_p), ("grid", gpu.Dim3), ("block", gpu.Dim3),
                ("shared", ctypes.c_uint), ("args", ctypes.c_void_p), ("extra", ctypes.c_void_p)]


class Graphs(Case):
    def node(self, kernel):
        return KernelNode(kernel, gpu.Dim3(1, 1, 1), gpu.Dim3(1, 1, 1), 0, None, None)

    def build(self, *kernels):
        graph, nodes = ctypes.c_void_p(), []
        self.cuda.call("cudaGraphCreate", ctypes.byref(graph), 0)
        for k in kernels:
            n = ctypes.c_void_p()
            self.cuda.call("cudaGraphAddKernelNode", ctypes.byref(n), graph, None, ctypes.c_size_t(0), ctypes.byref(self.node(k)))
            nodes.append(n)
        return graph, nodes

    def instantiate(self, graph):
        run = ctypes.c_void_p()
        self.cuda.call("cudaGraphInstantiate", ctypes.byref(run), graph, ctypes.c_ulonglong(0))
        return run

    def took(self, run):
        s = self.stream()
        begin = time.monotonic()
        self.cuda.call("cudaGraphLaunch", run, s)
        self.cuda.synchronize(s)
        return time.monotonic() - begin

    def test_set_params_changes_the_executable_graph_alone(self):
        graph, nodes = self.build(self.short, self.short)
        run = self.instantiate(graph)
        self.cuda.call("cudaGraphExecKernelNodeSetParams", run, nodes[0], ctypes.byref(self.node(self.long)))
        self.assertGreaterEqual(self.took(run), LONG_MS * ms)
        self.assertEqual(self.lib.cudaGraphExecKernelNodeSetParams(run, run, ctypes.byref(self.node(self.long))), 1)
        self.assertLess(self.took(self.instantiate(graph)), LONG_MS * ms)

    def test_update_takes_the_new_times_if_the_shape_is_the_same(self):
        run = self.instantiate(self.build(self.short)[0])
        other, _ = self.build(self.long)
        info = ctypes.create_string_buffer(64)
        self.cuda.call("cudaGraphExecUpdate", run, other, info)
        self.assertGreaterEqual(self.took(run), LONG_MS * ms)
        self.assertEqual(self.lib.cudaGraphExecUpdate(run, self.build(self.short, self.short)[0], info), 910)

    def test_clone_lives_on_without_the_graph(self):
        graph, _ = self.build(self.long)
        copy = ctypes.c_void_p()
        self.cuda.call("cudaGraphClone", ctypes.byref(copy), graph)
        self.cuda.call("cudaGraphDestroy", graph)
        self.assertEqual(self.lib.cudaGraphClone(ctypes.byref(copy), graph), 1)
        self.assertGreaterEqual(self.took(self.instantiate(copy)), LONG_MS * ms)

    def test_capture_to_a_graph_adds_to_it(self):
        s, (graph, _) = self.stream(), self.build(self.short)
        size, status = ctypes.c_size_t, ctypes.c_int(-1)
        self.cuda.call("cudaStreamBeginCaptureToGraph", s, graph, None, None, size(0), 0)
        ident, into = ctypes.c_ulonglong(), ctypes.c_void_p()
        self.cuda.call("cudaStreamGetCaptureInfo_v2", s, ctypes.byref(status), ctypes.byref(ident), ctypes.byref(into), None, None)
        self.assertEqual((status.value, into.value), (1, graph.value))
        self.cuda.launch(self.short, s)
        self.cuda.call("cudaEventRecord", self.event(), s)
        out, n = ctypes.c_void_p(), size()
        self.cuda.call("cudaStreamEndCapture", s, ctypes.byref(out))
        self.assertEqual(out.value, graph.value)
        self.cuda.call("cudaGraphGetNodes", graph, None, ctypes.byref(n))
        self.assertEqual(n.value, 2, "an event is no node")
        self.cuda.call("cudaStreamGetCaptureInfo", s, ctypes.byref(status), ctypes.byref(ident))
        self.assertEqual(status.value, 0)

    def test_a_capture_that_breaks_leaves_the_programs_graph(self):
        s, (graph, _) = self.stream(), self.build(self.short)
        out, size = ctypes.c_void_p(), ctypes.c_size_t
        self.cuda.call("cudaStreamBeginCaptureToGraph", s, graph, None, None, size(0), 0)
        self.assertEqual(self.lib.cudaStreamSynchronize(s), 900)
        self.assertEqual(self.lib.cudaStreamEndCapture(s, ctypes.byref(out)), 901)
        self.cuda.call("cudaGraphDestroy", graph)


class Versions(unittest.TestCase):
    def runtime(self, version):
        return gpu.Runtime(os.path.join(DIR, f"libcudart.so.{version}"))

    def test_instantiate_and_update_in_11_have_five_and_four_arguments(self):
        cuda = self.runtime("11.0")
        graph, run, s, bad, result = (ctypes.c_void_p() for _ in range(5))
        log = ctypes.create_string_buffer(16)
        cuda.call("cudaStreamCreate", ctypes.byref(s))
        cuda.call("cudaStreamBeginCapture", s, 0)
        cuda.launch(cuda.kernel("old_kernel"), s)
        cuda.call("cudaStreamEndCapture", s, ctypes.byref(graph))
        cuda.call("cudaGraphInstantiate", ctypes.byref(run), graph, ctypes.byref(bad), log, ctypes.c_size_t(16))
        result = ctypes.c_int(-1)
        cuda.call("cudaGraphExecUpdate", run, graph, ctypes.byref(bad), ctypes.byref(result))
        self.assertEqual(result.value, 0)
        cuda.call("cudaGraphLaunch", run, s)
        cuda.call("cudaStreamSynchronize", s)

    def test_prefetch_has_a_location_in_13(self):
        class Location(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

        size = ctypes.c_size_t(4096)
        for version, to in (("12", (0,)), ("13", (Location(1, 0), 0))):
            with self.subTest(version=version):
                cuda, p = self.runtime(version), ctypes.c_void_p()
                cuda.call("cudaMallocManaged", ctypes.byref(p), size, 1)
                cuda.call("cudaMemPrefetchAsync", p, size, *to, None)
                cuda.call("cudaMemAdvise", p, size, 3, to[0])
                bad = (5,) if version == "12" else (Location(1, 5), 0)
                self.assertEqual(cuda.lib.cudaMemPrefetchAsync(p, size, *bad, None), 1)


if __name__ == "__main__":
    unittest.main()
