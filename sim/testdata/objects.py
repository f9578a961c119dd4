# SPDX-License-Identifier: Apache-2.0
"""Memory of all kinds, contexts, modules and kernels on the simulated GPU.

usage: objects.py DIR
"""

import ctypes
import os
import subprocess
import sys
import unittest

from case import DIR, Case


class Objects(Case):
    """Invalid uses of pools, arrays, mapped memory, contexts and modules, and their errors."""

    def drv(self, name, *args):
        return getattr(self.driver, name)(*args)

    def ok(self, name, *args):
        self.assertEqual(self.drv(name, *args), 0, name)

    def used(self):
        m = (ctypes.c_ulonglong * 5)()
        self.ok("simMemory", 0, -1, m)
        return m[0]

    def prop(self):
        return (ctypes.c_int * 8)(1, 0, 1, 0)

    def test_mapped_memory_lives_until_handle_and_mapping_are_gone(self):
        size, chunk = ctypes.c_size_t(8 << 20), ctypes.c_size_t(2 << 20)
        before, base, h = self.used(), ctypes.c_ulonglong(), ctypes.c_void_p()
        n = ctypes.c_size_t()
        self.ok("cuMemGetAllocationGranularity", ctypes.byref(n), self.prop(), 0)
        self.assertEqual(n.value, chunk.value)
        zero = ctypes.c_ulonglong(0)
        self.ok("cuMemAddressReserve", ctypes.byref(base), size, ctypes.c_size_t(0), zero, zero)
        self.assertEqual(self.used(), before)
        self.ok("cuMemCreate", ctypes.byref(h), chunk, self.prop(), zero)
        self.assertEqual(self.used(), before + chunk.value)
        access = (ctypes.c_int * 3)(1, 0, 3)
        one = ctypes.c_size_t(1)
        self.assertEqual(self.drv("cuMemSetAccess", base, chunk, access, one), 1, "nothing is mapped")
        self.ok("cuMemMap", base, chunk, ctypes.c_size_t(0), h, zero)
        self.assertEqual(self.drv("cuMemMap", base, chunk, ctypes.c_size_t(0), h, zero), 1)
        self.ok("cuMemSetAccess", base, chunk, access, one)
        self.ok("cuMemsetD8Async", base, 0, chunk, None)
        self.assertEqual(self.drv("cuMemAddressFree", base, size), 1, "it is mapped")
        self.ok("cuMemRelease", h)
        self.assertEqual(self.drv("cuMemRelease", h), 1)
        self.assertEqual(self.used(), before + chunk.value)
        self.assertEqual(self.drv("cuMemUnmap", base, ctypes.c_size_t(1 << 20)), 1)
        self.ok("cuMemUnmap", base, chunk)
        self.assertEqual(self.used(), before)
        self.ok("cuMemAddressFree", base, size)
        self.assertEqual(self.drv("cuMemAddressFree", base, size), 1)
        self.assertEqual(self.drv("cuMemCreate", ctypes.byref(h), ctypes.c_size_t(66 << 20), self.prop(), zero), 2)

    def test_arrays(self):
        before, a = self.used(), ctypes.c_void_p()
        desc = (ctypes.c_int * 5)(32, 0, 0, 0, 2)
        size = ctypes.c_size_t
        self.cuda.call("cudaMallocArray", ctypes.byref(a), desc, size(64), size(16), 0)
        self.assertEqual(self.used() - before, 64 * 16 * 4)
        p = self.cuda.malloc(4096)
        self.cuda.call("cudaMemcpy2DToArray", a, size(0), size(0), p, size(256), size(256), size(16), 3)
        self.assertEqual(self.lib.cudaMemcpy2DToArray(a, size(0), size(0), p, size(256), size(256), size(17), 3), 1)
        self.cuda.free(p)
        self.cuda.call("cudaFreeArray", a)
        self.assertEqual(self.lib.cudaFreeArray(a), 400)
        self.assertEqual(self.used(), before)

    def test_pools_count_and_outlive_their_handle(self):
        before, pool, p, s = self.used(), ctypes.c_void_p(), ctypes.c_void_p(), self.stream()
        props = (ctypes.c_int * 32)(1, 0, 1, 0)
        self.cuda.call("cudaMemPoolCreate", ctypes.byref(pool), props)
        self.cuda.call("cudaMallocFromPoolAsync", ctypes.byref(p), ctypes.c_size_t(5000), pool, s)
        used = ctypes.c_ulonglong()
        self.cuda.call("cudaMemPoolGetAttribute", pool, 7, ctypes.byref(used))
        self.assertEqual(used.value, 5000)
        self.cuda.call("cudaMemPoolDestroy", pool)
        self.assertEqual(self.lib.cudaMemPoolDestroy(pool), 1)
        self.assertEqual(self.used(), before + 5000)
        self.cuda.call("cudaFreeAsync", p, s)
        self.assertEqual(self.used(), before)

    def test_contexts_take_their_memory_along(self):
        before, ctx, old, p = self.used(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_ulonglong()
        for name, args in (("cuCtxCreate_v2", (0, 0)), ("cuCtxCreate_v3", (None, 0, 0, 0)), ("cuCtxCreate_v4", (None, 0, 0))):
            with self.subTest(name=name):
                self.ok("cuCtxGetCurrent", ctypes.byref(old))
                self.ok(name, ctypes.byref(ctx), *args)
                self.ok("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(1 << 20))
                self.assertEqual(self.used(), before + (1 << 20))
                self.ok("cuCtxDestroy_v2", ctx)
                self.assertEqual(self.used(), before)
                now = ctypes.c_void_p()
                self.ok("cuCtxGetCurrent", ctypes.byref(now))
                self.assertEqual(now.value, old.value)

    def test_modules_have_what_their_image_lists(self):
        mod, f, g = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.ok("cuModuleLoad", ctypes.byref(mod), os.path.join(DIR, "vecAdd.cubin").encode())
        self.ok("cuModuleGetFunction", ctypes.byref(f), mod, b"vecAdd")
        self.ok("cuModuleGetFunction", ctypes.byref(g), mod, b"vecAdd")
        self.assertEqual(f.value, g.value)
        self.assertEqual(self.drv("cuModuleGetFunction", ctypes.byref(g), mod, b"vec"), 500)
        name = ctypes.c_char_p()
        self.ok("cuFuncGetName", ctypes.byref(name), f)
        self.assertEqual(name.value, b"vecAdd")
        self.ok("cuFuncGetModule", ctypes.byref(g), f)
        self.assertEqual(g.value, mod.value)
        self.ok("cuModuleUnload", mod)
        self.assertEqual(self.drv("cuModuleUnload", mod), 400)
        self.assertEqual(self.drv("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, None, None, None), 400)
        self.assertEqual(self.drv("cuModuleLoad", ctypes.byref(mod), b"/no/such/file"), 301)

    def test_libraries_and_kernels(self):
        lib, k, f, mod = (ctypes.c_void_p() for _ in range(4))
        none = (None, None, 0, None, None, 0)
        self.ok("cuLibraryLoadData", ctypes.byref(lib), b"kernels:\n_Z3addPfS_i\n", *none)
        self.assertEqual(self.drv("cuLibraryGetKernel", ctypes.byref(k), lib, b"_Z3add"), 500)
        self.ok("cuLibraryGetKernel", ctypes.byref(k), lib, b"_Z3addPfS_i")
        self.ok("cuLaunchKernel", k, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.ok("cuKernelGetFunction", ctypes.byref(f), k)
        self.ok("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.ok("cuLibraryGetModule", ctypes.byref(mod), lib)
        self.assertEqual(self.drv("cuModuleUnload", mod), 400)
        name = ctypes.c_char_p()
        for get, what in (("cuKernelGetName", k), ("cuFuncGetName", f)):
            self.ok(get, ctypes.byref(name), what)
            self.assertEqual(name.value, b"_Z3addPfS_i")
        self.ok("cuLibraryUnload", lib)
        for dead in (k, f):
            self.assertEqual(self.drv("cuLaunchKernel", dead, 1, 1, 1, 1, 1, 1, 0, None, None, None), 400)

    def test_registered_kernels_have_handles_and_names(self):
        cell = self.cuda.kernel("_ZN2at6native4copyEPf")
        k, f, name = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_char_p()
        self.cuda.call("cudaGetKernel", ctypes.byref(k), ctypes.c_void_p(cell))
        self.cuda.call("cudaGetFuncBySymbol", ctypes.byref(f), ctypes.c_void_p(cell))
        self.cuda.launch(k.value, None)
        for what in (cell, k.value):
            self.cuda.call("cudaFuncGetName", ctypes.byref(name), ctypes.c_void_p(what))
            self.assertEqual(name.value, b"_ZN2at6native4copyEPf")
        self.ok("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.assertEqual(self.lib.cudaFuncGetName(ctypes.byref(name), f), 98)

    def test_memory_of_another_process(self):
        class Handle(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_ubyte * 64)]

        h, p, q = Handle(), self.cuda.malloc(1 << 20), ctypes.c_void_p()
        self.cuda.call("cudaIpcGetMemHandle", ctypes.byref(h), p)
        self.assertEqual(self.lib.cudaIpcOpenMemHandle(ctypes.byref(q), h, 1), 201, "it is this process's own")
        code = (
            "import ctypes, sys\n"
            "class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_ubyte * 64)]\n"
            "lib, p = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()\n"
            "h = Handle.from_buffer_copy(bytes.fromhex(sys.argv[2]))\n"
            "print(lib.cudaIpcOpenMemHandle(ctypes.byref(p), h, 1), lib.cudaMemset(p, 0, ctypes.c_size_t(4096)),"
            " lib.cudaIpcCloseMemHandle(p), lib.cudaIpcCloseMemHandle(p))")
        args = [sys.executable, "-c", code, os.path.join(DIR, "libcudart.so.12"), bytes(h).hex()]
        self.assertEqual(subprocess.run(args, capture_output=True, check=True).stdout.split(), [b"0", b"0", b"0", b"1"])
        self.cuda.free(p)

    def test_variables(self):
        cell, p = ctypes.create_string_buffer(256), ctypes.c_void_p()
        handle = ctypes.c_void_p(self.cuda.register_image(b"simulated"))
        self.lib["__cudaRegisterVar"](handle, cell, cell, b"table", 0, ctypes.c_size_t(256), 0, 0)
        host = ctypes.create_string_buffer(256)
        size = ctypes.c_size_t
        self.cuda.call("cudaMemcpyToSymbol", cell, host, size(256), size(0), 1)
        self.cuda.call("cudaMemcpyFromSymbol", host, cell, size(128), size(128), 2)
        self.assertEqual(self.lib.cudaMemcpyToSymbol(cell, host, size(256), size(1), 1), 1)
        self.assertEqual(self.lib.cudaMemcpyToSymbol(host, host, size(1), size(0), 1), 13)
        self.cuda.call("cudaGetSymbolAddress", ctypes.byref(p), cell)
        self.cuda.call("cudaMemset", p, 0, size(256))


if __name__ == "__main__":
    unittest.main()
