# SPDX-License-Identifier: Apache-2.0
"""Streams, events, graphs, memory and addresses on the simulated GPU.

usage: semantics.py DIR
"""

import ctypes
import os
import threading
import time
import unittest

from case import DIR, LONG_MS, NON_BLOCKING, Case, gpu, ms


class Streams(Case):
    def test_launch_returns_before_the_kernel_ends(self):
        s = self.stream()
        self.cuda.launch(self.long, s)
        self.assertEqual(self.lib.cudaStreamQuery(s), 600)
        self.assertGreater(self.waits("cudaStreamSynchronize", s), 10 * ms)
        self.assertEqual(self.lib.cudaStreamQuery(s), 0)

    def test_streams_run_side_by_side(self):
        streams = [self.stream() for _ in range(4)]
        begin = time.monotonic()
        for s in streams:
            self.cuda.launch(self.long, s)
        self.cuda.call("cudaDeviceSynchronize")
        took = time.monotonic() - begin
        self.assertGreaterEqual(took, LONG_MS * ms)
        self.assertLess(took, 4 * LONG_MS * ms)

    def test_one_stream_is_in_order(self):
        s = self.stream()
        begin = time.monotonic()
        for _ in range(3):
            self.cuda.launch(self.long, s)
        self.cuda.synchronize(s)
        self.assertGreaterEqual(time.monotonic() - begin, 3 * LONG_MS * ms)

    def test_default_stream_waits_for_blocking_streams_only(self):
        for flags, pending in ((0, 600), (NON_BLOCKING, 0)):
            with self.subTest(flags=flags):
                self.cuda.launch(self.long, self.stream(flags))
                self.assertEqual(self.lib.cudaStreamQuery(None), pending)
                self.cuda.call("cudaDeviceSynchronize")

    def test_blocking_stream_waits_for_default_stream(self):
        s, free = self.stream(), self.stream(NON_BLOCKING)
        self.cuda.launch(self.long, None)
        self.assertEqual(self.lib.cudaStreamQuery(s), 600)
        self.assertEqual(self.lib.cudaStreamQuery(free), 0)

    def test_thread_default_streams_are_apart(self):
        done = []

        def other():
            done.append(self.lib.cudaStreamQuery_ptsz(None))

        self.lib.cudaLaunchKernel_ptsz.argtypes = self.lib.cudaLaunchKernel.argtypes
        one = gpu.Dim3(1, 1, 1)
        self.cuda.call("cudaLaunchKernel_ptsz", self.long, one, one, None, 0, None)
        self.assertEqual(self.lib.cudaStreamQuery_ptsz(None), 600)
        t = threading.Thread(target=other)
        t.start()
        t.join()
        self.assertEqual(done, [0])

    def test_stream_waits_for_event(self):
        a, b, e = self.stream(), self.stream(), self.event()
        self.cuda.launch(self.long, a)
        self.cuda.call("cudaEventRecord", e, a)
        self.assertEqual(self.lib.cudaEventQuery(e), 600)
        self.cuda.call("cudaStreamWaitEvent", b, e, 0)
        self.assertGreater(self.waits("cudaStreamSynchronize", b), 10 * ms)
        self.assertEqual(self.lib.cudaEventQuery(e), 0)

    def test_elapsed_time_is_the_kernels(self):
        s, a, b = self.stream(), self.event(), self.event()
        self.cuda.call("cudaEventRecord", a, s)
        self.cuda.launch(self.long, s)
        self.cuda.call("cudaEventRecord", b, s)
        self.cuda.call("cudaEventSynchronize", b)
        f = ctypes.c_float()
        self.cuda.call("cudaEventElapsedTime", ctypes.byref(f), a, b)
        self.assertGreaterEqual(f.value, LONG_MS)

    def test_full_queue_makes_launches_wait(self):
        s = self.stream()
        begin = time.monotonic()
        for _ in range(1024 + 10):
            self.cuda.launch(self.short, s)
        # The last launch had to wait until the tenth kernel was done.
        self.assertGreaterEqual(time.monotonic() - begin, 20 * ms)
        self.cuda.call("cudaDeviceReset")

    def test_host_function_runs_after_the_work_before_it(self):
        seen = []
        s = self.stream()
        fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: seen.append(time.monotonic()))
        begin = time.monotonic()
        self.cuda.launch(self.long, s)
        self.cuda.call("cudaLaunchHostFunc", s, fn, None)
        self.assertEqual(seen, [])
        self.cuda.synchronize(s)
        self.assertEqual(len(seen), 1)
        self.assertGreaterEqual(seen[0] - begin, LONG_MS * ms)


class Graphs(Case):
    def capture(self, s, launches):
        self.cuda.call("cudaStreamBeginCapture", s, 0)
        for _ in range(launches):
            self.cuda.launch(self.short, s)
        graph = ctypes.c_void_p()
        self.cuda.call("cudaStreamEndCapture", s, ctypes.byref(graph))
        return graph

    def test_capture_records_and_launch_runs(self):
        s = self.stream()
        graph = self.capture(s, 10)
        self.assertEqual(self.lib.cudaStreamQuery(s), 0, "capture ran the kernels")
        n = ctypes.c_size_t()
        self.cuda.call("cudaGraphGetNodes", graph, None, ctypes.byref(n))
        self.assertEqual(n.value, 10)
        run = ctypes.c_void_p()
        self.cuda.call("cudaGraphInstantiate", ctypes.byref(run), graph, ctypes.c_ulonglong(0))
        begin = time.monotonic()
        self.cuda.call("cudaGraphLaunch", run, s)
        self.cuda.synchronize(s)
        self.assertGreaterEqual(time.monotonic() - begin, 20 * ms)
        self.cuda.call("cudaGraphExecDestroy", run)
        self.cuda.call("cudaGraphDestroy", graph)
        self.assertNotEqual(self.lib.cudaGraphLaunch(run, s), 0)

    def test_synchronise_in_a_capture_breaks_it(self):
        s, graph = self.stream(), ctypes.c_void_p()
        self.cuda.call("cudaStreamBeginCapture", s, 0)
        self.assertEqual(self.lib.cudaStreamSynchronize(s), 900)
        self.assertEqual(self.lib.cudaStreamEndCapture(s, ctypes.byref(graph)), 901)
        self.cuda.synchronize(s)

    def test_default_stream_cannot_be_captured(self):
        self.assertEqual(self.lib.cudaStreamBeginCapture(None, 0), 900)

    def test_instantiate_has_five_arguments_in_the_old_driver_form(self):
        s, run = self.stream(), ctypes.c_void_p()
        graph = self.capture(s, 1)
        log = ctypes.create_string_buffer(16)
        err = self.driver.cuGraphInstantiate(ctypes.byref(run), graph, None, log, ctypes.c_size_t(16))
        self.assertEqual(err, 0)
        self.cuda.call("cudaGraphLaunch", run, s)


class Memory(Case):
    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def test_limit_holds_and_memory_comes_back(self):
        before = self.free_bytes()
        held = [self.cuda.malloc(16 << 20) for _ in range(3)]
        self.assertEqual(before - self.free_bytes(), 48 << 20)
        p = ctypes.c_void_p()
        self.assertEqual(self.lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(17 << 20)), 2)
        for h in held:
            self.cuda.free(h)
        self.assertEqual(self.free_bytes(), before)

    def test_address_comes_again_after_free(self):
        p = self.cuda.malloc(12345)
        self.cuda.free(p)
        q = self.cuda.malloc(12345)
        self.assertEqual(p.value, q.value)
        self.cuda.free(q)

    def test_free_waits_for_the_device(self):
        p = self.cuda.malloc(4096)
        self.cuda.launch(self.long, self.stream())
        self.assertGreater(self.waits("cudaFree", p), 10 * ms)

    def test_each_kind_is_freed_by_its_own_call(self):
        p = self.cuda.pinned(4096)
        self.assertEqual(self.lib.cudaFree(p), 1)
        self.assertEqual(self.lib.cudaFreeHost(p), 0)
        p = self.cuda.malloc(4096)
        self.assertEqual(self.lib.cudaFreeHost(p), 1)
        self.assertEqual(self.lib.cudaFree(p), 0)

    def test_pinned_and_managed_memory_is_the_hosts_too(self):
        p = self.cuda.pinned(4096)
        ctypes.memset(p, 7, 4096)
        m = ctypes.c_void_p()
        self.cuda.call("cudaMallocManaged", ctypes.byref(m), ctypes.c_size_t(4096), 1)
        ctypes.memmove(m, p, 4096)
        self.assertEqual(ctypes.string_at(m, 3), b"\7\7\7")
        self.cuda.free(m)
        self.cuda.call("cudaFreeHost", p)

    def test_stream_ordered_and_pooled(self):
        s, p, pool = self.stream(), ctypes.c_void_p(), ctypes.c_void_p()
        before = self.free_bytes()
        self.cuda.call("cudaMallocAsync", ctypes.byref(p), ctypes.c_size_t(4096), s)
        self.cuda.call("cudaFreeAsync", p, s)
        self.cuda.call("cudaDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
        self.cuda.call("cudaMallocFromPoolAsync", ctypes.byref(p), ctypes.c_size_t(4096), pool, s)
        self.cuda.call("cudaFreeAsync", p, s)
        self.assertEqual(self.free_bytes(), before)
        self.assertEqual(self.lib.cudaFreeAsync(p, s), 1)

    def test_pinned_copy_is_asynchronous_and_pageable_to_host_is_not(self):
        s, size = self.stream(), 4096
        device, pinned, pageable = self.cuda.malloc(size), self.cuda.pinned(size), ctypes.create_string_buffer(size)
        for host, pending in ((pinned, 600), (pageable, 0)):
            self.cuda.launch(self.long, s)
            self.cuda.copy(host, device, size, gpu.D2H, s)
            self.assertEqual(self.lib.cudaStreamQuery(s), pending)
            self.cuda.synchronize(s)
        self.cuda.free(device)

    def test_registered_memory_counts_as_pinned(self):
        s, size = self.stream(), 65536
        device, host = self.cuda.malloc(size), ctypes.create_string_buffer(size)
        self.cuda.call("cudaHostRegister", host, ctypes.c_size_t(size), 0)
        self.cuda.launch(self.long, s)
        self.cuda.copy(host, device, size, gpu.D2H, s)
        self.assertEqual(self.lib.cudaStreamQuery(s), 600)
        self.cuda.synchronize(s)
        self.cuda.call("cudaHostUnregister", host)
        self.assertEqual(self.lib.cudaHostUnregister(host), 713)
        self.cuda.free(device)

    def test_reset_frees_everything(self):
        self.cuda.malloc(16 << 20)
        self.cuda.call("cudaDeviceReset")
        self.assertEqual(self.free_bytes(), 64 << 20)
        self.cuda.launch(self.short, None)


class Addresses(Case):
    def find(self, name, version=12040, flags=1):
        p, status = ctypes.c_void_p(), ctypes.c_int(-1)
        err = self.driver.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(p), version, ctypes.c_ulonglong(flags), ctypes.byref(status))
        return None if err else p.value

    def export(self, name):
        return ctypes.cast(getattr(self.driver, name), ctypes.c_void_p).value

    def test_addresses_are_those_of_the_exports(self):
        for name, version, flags, want in (
            ("cuLaunchKernel", 12040, 1, "cuLaunchKernel"),
            ("cuLaunchKernel", 12040, 2, "cuLaunchKernel_ptsz"),
            ("cuMemAlloc", 12040, 1, "cuMemAlloc_v2"),
            ("cuMemAlloc", 3000, 1, "cuMemAlloc"),
            ("cuMemcpyHtoDAsync", 12040, 2, "cuMemcpyHtoDAsync_v2_ptsz"),
            ("cuMemcpyHtoD", 12040, 2, "cuMemcpyHtoD_v2_ptds"),
            ("cuStreamSynchronize", 12040, 2, "cuStreamSynchronize_ptsz"),
            ("cuGraphInstantiate", 11080, 1, "cuGraphInstantiate_v2"),
            ("cuGraphInstantiate", 12000, 1, "cuGraphInstantiateWithFlags"),
            ("cuGetProcAddress", 12000, 1, "cuGetProcAddress_v2"),
            ("cuGetProcAddress", 11080, 1, "cuGetProcAddress"),
        ):
            with self.subTest(name=name, version=version, flags=flags):
                self.assertEqual(self.find(name, version, flags), self.export(want))

    def test_unknown_and_too_new_names_are_not_found(self):
        self.assertIsNone(self.find("cuNoSuchThing"))
        self.assertIsNone(self.find("cuGraphLaunch", 9000))

    def test_runtime_versions(self):
        for file, want in (("libcudart.so.12", 12040), ("libcudart.so.13", 13000)):
            v = ctypes.c_int()
            ctypes.CDLL(os.path.join(DIR, file)).cudaRuntimeGetVersion(ctypes.byref(v))
            self.assertEqual(v.value, want)


if __name__ == "__main__":
    unittest.main()
