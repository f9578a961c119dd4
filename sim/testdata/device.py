# SPDX-License-Identifier: Apache-2.0
"""Queries of the simulated device, and the linking and registration of images.

usage: device.py DIR
"""

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from case import DIR, Case

PTX = b"""// made by hand; .entry no_kernel
.version 8.4
.target sm_80
.address_size 64
/* .entry nor_this( */
.visible .entry _Z3addPfS_i(.param .u64 p) { ret; }
.entry
  scale_100us () { ret; }
.func helper() { ret; }
"""


def cubin(*kernels):
    """An ELF file whose symbol table has the kernels as entries, and one function that is none."""
    strings = b"\0" + b"".join(k + b"\0" for k in kernels) + b"helper\0"
    symbols = bytes(24)
    for k in kernels + (b"helper",):
        other = 0 if k == b"helper" else 0x10
        symbols += struct.pack("<IBBHQQ", strings.index(b"\0" + k + b"\0") + 1, 0x12, other, 1, 0, 8)
    at = 64
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, len(symbols), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at + len(symbols), len(strings), 0, 0, 1, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at + len(symbols) + len(strings), 0, 64, 0, 0, 64, 3, 2)
    return header + symbols + strings + sections


class Device(Case):
    def drv(self, name, *args):
        return getattr(self.driver, name)(*args)

    def ok(self, name, *args):
        self.assertEqual(self.drv(name, *args), 0, name)

    def function(self, image, name):
        mod, f = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok("cuModuleLoadData", ctypes.byref(mod), image)
        return self.drv("cuModuleGetFunction", ctypes.byref(f), mod, name), f

    def test_properties_are_the_attributes(self):
        p = ctypes.create_string_buffer(1032 + 8)
        self.cuda.call("cudaGetDeviceProperties_v2", p, 0)
        self.assertEqual(p.raw[:14], b"Simulated GPU\0")
        self.assertEqual(struct.unpack_from("<Q", p, 288), (64 << 20,))
        self.assertEqual(struct.unpack_from("<ii", p, 360), (8, 0))
        v = ctypes.c_int()
        for attribute, offset in ((10, 308), (1, 320), (16, 388), (33, 584), (39, 624), (106, 712)):
            self.ok("cuDeviceGetAttribute", ctypes.byref(v), attribute, 0)
            self.assertEqual(struct.unpack_from("<i", p, offset), (v.value,), attribute)
        self.assertEqual(struct.unpack_from("<Q", p, 696), (166912,))
        self.assertEqual(p.raw[1032:], bytes(8))
        self.assertEqual(self.lib.cudaGetDeviceProperties_v2(p, 1), 101)
        old = ctypes.create_string_buffer(b"\1" * 736, 736)
        self.cuda.call("cudaGetDeviceProperties", old, 0)
        self.assertEqual(old.raw[:728], p.raw[:728])
        self.assertEqual(old.raw[728:], b"\1" * 8)

    def test_pci_bus_ids(self):
        text, dev = ctypes.create_string_buffer(16), ctypes.c_int(-1)
        self.cuda.call("cudaDeviceGetPCIBusId", text, 16, 0)
        for name in (text.value, b"10:00", b"10:00.0", b"0000:10:00"):
            self.cuda.call("cudaDeviceGetByPCIBusId", ctypes.byref(dev), name)
            self.assertEqual(dev.value, 0)
        for name, err in ((b"11:00", 101), (b"10:01", 101), (b"0001:10:00", 101), (b"x:0", 1), (b"10:00.1", 1), (b"10", 1)):
            self.assertEqual(self.lib.cudaDeviceGetByPCIBusId(ctypes.byref(dev), name), err, name)
        can = ctypes.c_int(1)
        self.cuda.call("cudaDeviceCanAccessPeer", ctypes.byref(can), 0, 0)
        self.assertEqual(can.value, 0)

    def test_priorities_are_kept_within_the_range(self):
        least, greatest, s, p = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self.cuda.call("cudaDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        self.assertEqual((least.value, greatest.value), (0, -5))
        for asked, got in ((-2, -2), (-9, -5), (3, 0)):
            self.cuda.call("cudaStreamCreateWithPriority", ctypes.byref(s), 1, asked)
            self.cuda.call("cudaStreamGetPriority", s, ctypes.byref(p))
            self.assertEqual(p.value, got)
            self.cuda.call("cudaStreamDestroy", s)

    def test_occupancy(self):
        k, n = self.cuda.kernel("occupied"), ctypes.c_int()
        ask = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
        for threads, shared, want in ((32, 0, 32), (256, 0, 8), (1024, 0, 2), (1025, 0, 0), (128, 49152, 3), (128, 166912, 1),
                                      (128, 166913, 0)):
            self.cuda.call(ask, ctypes.byref(n), ctypes.c_void_p(k), threads, ctypes.c_size_t(shared))
            self.assertEqual(n.value, want, (threads, shared))
        self.assertEqual(getattr(self.lib, ask)(ctypes.byref(n), ctypes.c_void_p(k), 0, ctypes.c_size_t(0)), 1)
        _, f = self.function(b"kernels:\nk\n", b"k")
        grid, block = ctypes.c_int(), ctypes.c_int()
        for limit, want in ((0, (216, 1024)), (100, (3456, 64))):
            self.ok("cuOccupancyMaxPotentialBlockSize", ctypes.byref(grid), ctypes.byref(block), f, None, ctypes.c_size_t(0), limit)
            self.assertEqual((grid.value, block.value), want)

    def test_limits_and_caches_are_the_contexts(self):
        v, c = ctypes.c_size_t(), ctypes.c_uint()
        self.cuda.call("cudaDeviceSetLimit", 0, ctypes.c_size_t(4096))
        self.cuda.call("cudaDeviceGetLimit", ctypes.byref(v), 0)
        self.assertEqual(v.value, 4096)
        self.assertEqual(self.lib.cudaDeviceGetLimit(ctypes.byref(v), 99), 215)
        self.cuda.call("cudaDeviceSetCacheConfig", 2)
        self.cuda.call("cudaDeviceGetCacheConfig", ctypes.byref(c))
        self.assertEqual(c.value, 2)
        self.assertEqual(self.lib.cudaDeviceSetCacheConfig(4), 1)
        old, ctx = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok("cuCtxGetCurrent", ctypes.byref(old))
        self.ok("cuCtxCreate_v2", ctypes.byref(ctx), 0, 0)
        self.ok("cuCtxGetLimit", ctypes.byref(v), 0)
        self.assertEqual(v.value, 1024)
        self.ok("cuCtxDestroy_v2", ctx)
        self.ok("cuCtxSetCurrent", old)

    def test_a_context_ends_when_all_have_left_it(self):
        old, ctx, same = (ctypes.c_void_p() for _ in range(3))
        self.ok("cuCtxGetCurrent", ctypes.byref(old))
        self.ok("cuCtxCreate_v2", ctypes.byref(ctx), 0, 0)
        self.ok("cuCtxAttach", ctypes.byref(same), 0)
        self.assertEqual(same.value, ctx.value)
        self.ok("cuCtxDetach", ctx)
        self.ok("cuCtxSynchronize")
        self.ok("cuCtxDetach", ctx)
        self.assertEqual(self.drv("cuCtxDetach", ctx), 201)
        self.ok("cuCtxSetCurrent", old)
        self.assertEqual(self.drv("cuCtxDetach", old), 201, "nobody came to the primary one")

    def test_pinned_memory_keeps_its_flags(self):
        p, f = ctypes.c_void_p(), ctypes.c_uint()
        for flags in (0, 3, 4):
            self.cuda.call("cudaHostAlloc", ctypes.byref(p), ctypes.c_size_t(4096), flags)
            self.cuda.call("cudaHostGetFlags", ctypes.byref(f), p)
            self.assertEqual(f.value, flags)
            self.cuda.call("cudaFreeHost", p)
        self.assertEqual(self.lib.cudaHostGetFlags(ctypes.byref(f), p), 1)

    def test_images_have_the_kernels_of_their_text(self):
        for image, kernels in ((PTX, (b"_Z3addPfS_i", b"scale_100us")), (cubin(b"one", b"_Z3twov"), (b"one", b"_Z3twov"))):
            for name in kernels:
                err, f = self.function(image, name)
                self.assertEqual(err, 0, name)
                self.ok("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, None, None, None)
            for name in (b"helper", b"no_kernel", b"nor_this"):
                self.assertEqual(self.function(image, name)[0], 500, name)

    def test_the_linker_makes_one_image_of_all(self):
        state, image, n, f = (ctypes.c_void_p() for _ in range(4))
        log = ctypes.create_string_buffer(b"x" * 64, 64)
        options, values = (ctypes.c_uint * 2)(3, 4), (ctypes.c_void_p * 2)(ctypes.addressof(log), 64)
        self.ok("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
        self.assertEqual((log.value, values[1]), (b"", None))
        none = (None, 0, None, None)

        def add(kind, data):
            return self.drv("cuLinkAddData_v2", state, kind, data, ctypes.c_size_t(len(data)), *none)

        self.assertEqual(add(1, b"no PTX"), 218)
        self.assertEqual(add(9, PTX), 1)
        self.assertEqual(add(1, PTX), 0)
        self.assertEqual(add(0, cubin(b"third")), 0)
        with tempfile.NamedTemporaryFile() as file:
            file.write(PTX.replace(b"scale", b"from_file"))
            file.flush()
            self.ok("cuLinkAddFile_v2", state, 1, file.name.encode(), 0, None, None)
        self.assertEqual(self.drv("cuLinkAddFile_v2", state, 1, b"/no/such/file", 0, None, None), 301)
        self.ok("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(n))
        copy = ctypes.string_at(image, n.value)
        self.ok("cuLinkDestroy", state)
        self.assertEqual(self.drv("cuLinkDestroy", state), 400)
        for name in (b"_Z3addPfS_i", b"scale_100us", b"third", b"from_file_100us"):
            err, f = self.function(copy, name)
            self.assertEqual(err, 0, name)
            self.ok("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.assertEqual(self.function(copy, b"helper")[0], 500)

    def test_what_is_not_known_of_one_input_is_not_known_of_the_image(self):
        state, image, n = (ctypes.c_void_p() for _ in range(3))
        self.ok("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
        self.ok("cuLinkAddData_v2", state, 2, b"\x50\xed\x55\xba", ctypes.c_size_t(4), None, 0, None, None)
        self.ok("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(n))
        self.assertEqual(self.function(ctypes.string_at(image, n.value), b"any_name")[0], 0)
        self.ok("cuLinkDestroy", state)

    def test_a_graph_is_drawn(self):
        s, graph = self.stream(), ctypes.c_void_p()
        self.cuda.call("cudaStreamBeginCapture", s, 0)
        for _ in range(12):
            self.cuda.launch(self.short, s)
        self.cuda.call("cudaStreamEndCapture", s, ctypes.byref(graph))
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "graph.dot")
            self.cuda.call("cudaGraphDebugDotPrint", graph, path.encode(), 0)
            with open(path) as file:
                text = file.read()
            self.assertEqual(self.lib.cudaGraphDebugDotPrint(graph, (d + "/no/file").encode(), 0), 304)
        self.assertEqual(text.count("node_"), 12)
        self.assertIn("node_10 -> node_11;", text)
        self.cuda.call("cudaGraphDestroy", graph)

    def test_the_next_kernel_takes_the_time_that_is_asked_for(self):
        s = self.stream()
        self.assertEqual(self.lib.simKernelTime(ctypes.c_ulonglong(150_000_000)), 0)
        self.cuda.launch(self.short, s)
        self.assertGreaterEqual(self.waits("cudaStreamSynchronize", s), 0.1)


class Registration(Case):
    KERNELS, IMAGES = 100_000, 9_000

    def test_a_hundred_thousand_kernels_of_nine_thousand_images(self):
        names = ctypes.create_string_buffer(b"".join(b"kernel_%06d\0" % i for i in range(self.KERNELS)))
        at = [ctypes.addressof(names) + 14 * i for i in range(self.KERNELS)]
        register, null = self.lib["__cudaRegisterFunction"], ctypes.c_void_p()
        register.restype = None
        images = [ctypes.c_void_p(self.cuda.register_image(b"simulated")) for _ in range(self.IMAGES)]
        self.assertTrue(all(images))
        self.assertEqual(len({i.value for i in images}), self.IMAGES)
        for i, p in enumerate(at):
            register(images[i % self.IMAGES], ctypes.c_void_p(p), null, ctypes.c_void_p(p), -1, null, null, null, null, null)
        name = ctypes.c_char_p()
        for i, p in enumerate(at):
            self.cuda.call("cudaFuncGetName", ctypes.byref(name), ctypes.c_void_p(p))
            self.assertEqual(name.value, b"kernel_%06d" % i)
        self.cuda.launch(at[-1], None)
        unregister = self.lib["__cudaUnregisterFatBinary"]
        unregister.restype = None
        unregister(images[0])
        self.assertEqual(self.lib.cudaFuncGetName(ctypes.byref(name), ctypes.c_void_p(at[0])), 98)
        self.cuda.call("cudaFuncGetName", ctypes.byref(name), ctypes.c_void_p(at[1]))
        again = self.cuda.register_image(b"simulated")
        self.assertEqual(again, images[0].value)

    def test_the_end_of_memory_is_told(self):
        code = (
            "import ctypes, resource, sys\n"
            "lib = ctypes.CDLL(sys.argv[1])\n"
            "image = lib['__cudaRegisterFatBinary']; image.restype = ctypes.c_void_p\n"
            "register, null = lib['__cudaRegisterFunction'], ctypes.c_void_p()\n"
            "register.restype = None\n"
            "handle, name = ctypes.c_void_p(image(b'simulated')), ctypes.create_string_buffer(b'kernel')\n"
            "pages = int(open('/proc/self/statm').read().split()[0])\n"
            "_, hard = resource.getrlimit(resource.RLIMIT_AS)\n"
            "resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20), hard))\n"
            "for i in range(1, 200_000):\n"
            "    register(handle, ctypes.c_void_p(i << 4), null, name, -1, null, null, null, null, null)\n"
            "resource.setrlimit(resource.RLIMIT_AS, (hard, hard))\n"
            "p = ctypes.c_void_p()\n"
            "print(lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4096)), lib.cudaDeviceSynchronize())\n")
        out = subprocess.run([sys.executable, "-c", code, os.path.join(DIR, "libcudart.so.12")], capture_output=True, text=True)
        self.assertEqual((out.returncode, out.stdout.split()), (0, ["2", "2"]), out.stderr)
        self.assertEqual(out.stderr.count("out of memory while kernels are registered"), 1)

    def test_no_room_in_the_driver_is_told(self):
        code = (
            "import ctypes, sys\n"
            "lib, driver = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])\n"
            "image = lib['__cudaRegisterFatBinary']; image.restype = ctypes.c_void_p\n"
            "register, null = lib['__cudaRegisterFunction'], ctypes.c_void_p()\n"
            "cell = ctypes.create_string_buffer(b'kernel')\n"
            "register(ctypes.c_void_p(image(b'simulated')), cell, null, cell, -1, null, null, null, null, null)\n"
            "lib.cudaDeviceSynchronize()\n"
            "library, n = ctypes.c_void_p(), 0\n"
            "while not (err := driver.cuLibraryLoadData(ctypes.byref(library), b'any', None, None, 0, None, None, 0)):\n"
            "    n += 1\n"
            "name = ctypes.c_char_p()\n"
            "print(n, err, lib.cudaFuncGetName(ctypes.byref(name), cell), lib.cudaFuncGetName(ctypes.byref(name), library))\n")
        args = [sys.executable, "-c", code, os.path.join(DIR, "libcudart.so.12"), os.path.join(DIR, "libcuda.so.1")]
        out = subprocess.run(args, capture_output=True, text=True, env=dict(os.environ, INGERO_SIM_ZERO="1"))
        self.assertEqual((out.returncode, out.stdout.split()), (0, ["16384", "2", "2", "98"]), out.stderr)
        self.assertEqual(out.stderr.count("too many objects of one kind"), 1)


if __name__ == "__main__":
    unittest.main()
