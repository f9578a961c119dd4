# SPDX-License-Identifier: Apache-2.0
"""Kernel launches of the simulated cuBLAS and cuDNN.

usage: mathlibs.py DIR
"""

import ctypes
import os
import unittest

from case import DIR, Case

LONG = 8192  # a product of this size takes 110 ms of GPU time


class Math(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.blas = ctypes.CDLL(os.path.join(DIR, "libcublas.so.12"))
        cls.lt = ctypes.CDLL(os.path.join(DIR, "libcublasLt.so.12"))
        cls.dnn = ctypes.CDLL(os.path.join(DIR, "libcudnn.so.9"))

    def handle(self, lib, create):
        h = ctypes.c_void_p()
        self.assertEqual(getattr(lib, create)(ctypes.byref(h)), 0)
        return h

    def test_products(self):
        h, s = self.handle(self.blas, "cublasCreate_v2"), self.stream()
        self.assertEqual(self.blas.cublasSetStream_v2(h, s), 0)
        for n, least in ((16, 0), (LONG, 0.1)):
            self.assertEqual(self.blas.cublasSgemm_v2(h, 0, 0, n, n, n, None, None, n, None, n, None, None, n), 0)
            self.assertGreaterEqual(self.waits("cudaStreamSynchronize", s), least)
        self.assertEqual(self.blas.cublasSgemm_v2(h, 1, 0, 4, 4, 4, None, None, 4, None, 4, None, None, 4), 0)
        self.assertEqual(self.blas.cublasDgemm_v2(h, 0, 1, 4, 4, 4, None, None, 4, None, 4, None, None, 4), 0)
        self.assertEqual(self.blas.cublasSgemm_v2(h, 0, 0, -1, 4, 4, None, None, 4, None, 4, None, None, 4), 7)
        self.assertEqual(self.blas.cublasSgemm_v2(None, 0, 0, 1, 4, 4, None, None, 4, None, 4, None, None, 4), 1)
        x = ctypes.c_float(7)
        self.assertEqual(self.blas.cublasSdot_v2(h, 100, None, 1, None, 1, ctypes.byref(x)), 0)
        self.assertEqual(x.value, 0)
        self.assertEqual(self.blas.cublasDestroy_v2(h), 0)

    def test_light_products(self):
        op, a, b, c, found = (ctypes.c_void_p() for _ in range(5))
        self.assertEqual(self.lt.cublasLtMatmulDescCreate(ctypes.byref(op), 68, 0), 0)
        self.assertEqual(self.lt.cublasLtMatmulDescSetAttribute(op, 3, ctypes.byref(ctypes.c_int(1)), ctypes.c_size_t(4)), 0)
        u = ctypes.c_ulonglong
        for layout in (a, b, c):
            self.assertEqual(self.lt.cublasLtMatrixLayoutCreate(ctypes.byref(layout), 14, u(64), u(64), u(64)), 0)
        result = ctypes.create_string_buffer(96)
        self.assertEqual(self.lt.cublasLtMatmulAlgoGetHeuristic(None, op, a, b, c, c, None, 1, result, ctypes.byref(found)), 0)
        self.assertEqual(found.value, 1)
        self.assertEqual(self.lt.cublasLtMatmul(None, op, None, None, a, None, b, None, None, c, None, c, result, None, ctypes.c_size_t(0), None), 0)

    def descriptor(self, kind, *args):
        d = ctypes.c_void_p()
        self.assertEqual(getattr(self.dnn, f"cudnnCreate{kind}Descriptor")(ctypes.byref(d)), 0)
        self.assertEqual(getattr(self.dnn, f"cudnnSet{kind}NdDescriptor")(d, *args), 0)
        return d

    def test_convolutions(self):
        h, four = self.handle(self.dnn, "cudnnCreate"), ctypes.c_int * 4
        x = self.descriptor("Tensor", 0, 4, four(2, 3, 32, 32), four(3072, 1024, 32, 1))
        y = self.descriptor("Tensor", 0, 4, four(2, 8, 30, 30), four(7200, 900, 30, 1))
        w = self.descriptor("Filter", 0, 0, 4, four(8, 3, 3, 3))
        n, kind, dims, strides = ctypes.c_int(), ctypes.c_int(), four(), four()
        self.assertEqual(self.dnn.cudnnGetTensorNdDescriptor(x, 4, ctypes.byref(kind), ctypes.byref(n), dims, strides), 0)
        self.assertEqual((n.value, list(dims), list(strides)), (4, [2, 3, 32, 32], [3072, 1024, 32, 1]))
        none, zero = None, ctypes.c_size_t(0)
        self.assertEqual(self.dnn.cudnnConvolutionForward(h, none, x, none, w, none, none, 1, none, zero, none, y, none), 0)
        self.assertEqual(self.dnn.cudnnConvolutionBackwardData(h, none, w, none, y, none, none, 1, none, zero, none, x, none), 0)
        self.assertEqual(self.dnn.cudnnRNNForward(), 3000)
        self.assertEqual(self.dnn.cudnnDestroy(h), 0)

    def node(self, kind, **values):
        d = ctypes.c_void_p()
        self.assertEqual(self.dnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(d)), 0)
        for attribute, v in values.items():
            if isinstance(v, tuple):
                array, type_ = (ctypes.c_longlong * len(v))(*v), 3
            else:
                array, type_ = ctypes.byref(v), 15
            n = ctypes.c_longlong(len(v) if isinstance(v, tuple) else 1)
            self.assertEqual(self.dnn.cudnnBackendSetAttribute(d, int(attribute[1:]), type_, n, array), 0)
        return d

    def test_a_plan_runs_its_graphs_operation(self):
        h = self.handle(self.dnn, "cudnnCreate")
        x, w, y = (self.node(17, _902=dims) for dims in ((2, 3, 32, 32), (8, 3, 3, 3), (2, 8, 30, 30)))
        operation = self.node(10, _703=w, _704=x, _705=y)
        self.assertEqual(self.dnn.cudnnBackendFinalize(operation), 0)
        graph = self.node(15, _801=operation)
        heuristics = self.node(4, _201=graph)
        config, n = self.node(3), ctypes.c_longlong()
        self.assertEqual(self.dnn.cudnnBackendGetAttribute(heuristics, 202, 15, ctypes.c_longlong(1), ctypes.byref(n), ctypes.byref(config)), 0)
        self.assertEqual(n.value, 1)
        for d in (x, w, y, operation, graph, heuristics):
            self.assertEqual(self.dnn.cudnnBackendDestroyDescriptor(d), 0)
        plan = self.node(5, _401=config)
        self.assertEqual(self.dnn.cudnnBackendDestroyDescriptor(config), 0)
        self.assertEqual(self.dnn.cudnnBackendFinalize(plan), 0)
        self.assertEqual(self.dnn.cudnnBackendExecute(h, plan, self.node(16)), 0)
        self.assertEqual(self.dnn.cudnnBackendFinalize(self.node(5)), 3000)


if __name__ == "__main__":
    unittest.main()
