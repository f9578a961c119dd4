# SPDX-License-Identifier: Apache-2.0
"""The simulated NCCL, with all ranks in this process.

usage: nccl.py DIR
"""

import ctypes
import os
import threading
import time
import unittest

from case import DIR, LONG_MS, Case, ms

FLOAT32, SUM = 7, 0


class Ranks(Case):
    N = 3

    @classmethod
    def setUpClass(cls):
        os.environ["INGERO_SIM_DEVICES"] = str(cls.N)
        super().setUpClass()
        cls.nccl = ctypes.CDLL(os.path.join(DIR, "libnccl.so.2"))

    def setUp(self):
        self.comms = (ctypes.c_void_p * self.N)()
        self.assertEqual(self.nccl.ncclCommInitAll(self.comms, self.N, None), 0)
        self.streams = []
        for i in range(self.N):
            self.cuda.call("cudaSetDevice", i)
            self.streams.append(self.stream(1))

    def tearDown(self):
        for c in self.comms:
            if c:
                self.assertEqual(self.nccl.ncclCommDestroy(ctypes.c_void_p(c)), 0)
        self.cuda.call("cudaSetDevice", 0)
        super().tearDown()

    def comm(self, i):
        return ctypes.c_void_p(self.comms[i])

    def all_reduce(self, i, count=1024, dtype=FLOAT32, op=SUM, stream=None):
        return self.nccl.ncclAllReduce(
            None, None, ctypes.c_size_t(count), dtype, op, self.comm(i), stream or self.streams[i])

    def query(self, i):
        return self.lib.cudaStreamQuery(self.streams[i])

    def test_ranks_and_sizes(self):
        for i in range(self.N):
            v = ctypes.c_int()
            for name, want in (("ncclCommCount", self.N), ("ncclCommUserRank", i), ("ncclCommCuDevice", i)):
                self.assertEqual(getattr(self.nccl, name)(self.comm(i), ctypes.byref(v)), 0)
                self.assertEqual(v.value, want, name)
            self.assertEqual(self.nccl.ncclCommGetAsyncError(self.comm(i), ctypes.byref(v)), 0)
            self.assertEqual(v.value, 0)

    def test_nobody_is_done_until_all_have_come(self):
        for i in range(self.N - 1):
            self.assertEqual(self.all_reduce(i), 0)
        self.assertEqual([self.query(i) for i in range(self.N)], [600, 600, 0])
        waited = []

        def wait():
            begin = time.monotonic()
            self.cuda.synchronize(self.streams[0])
            waited.append(time.monotonic() - begin)

        t = threading.Thread(target=wait)
        begin = time.monotonic()
        t.start()
        while time.monotonic() - begin < LONG_MS * ms:
            self.assertEqual(self.query(1), 600)
        late = time.monotonic() - begin
        self.assertEqual(self.all_reduce(self.N - 1), 0)
        t.join()
        self.assertGreater(waited[0], late / 2)
        for s in self.streams:
            self.cuda.synchronize(s)

    def test_work_before_and_behind_it_waits_too(self):
        self.cuda.launch(self.long, self.streams[0])
        e = self.event()
        for i in range(self.N):
            self.all_reduce(i)
        self.cuda.call("cudaEventRecord", e, self.streams[1])
        self.cuda.launch(self.short, self.streams[2])
        self.assertEqual(self.lib.cudaEventQuery(e), 600)
        begin = time.monotonic()
        self.cuda.call("cudaEventSynchronize", e)
        self.assertGreater(time.monotonic() - begin, 10 * ms, "rank 1 waits for the kernel of rank 0")
        self.cuda.synchronize(self.streams[2])

    def test_a_group_is_one_kernel(self):
        self.nccl.ncclGroupStart()
        for i in range(self.N):
            for _ in range(3):
                self.assertEqual(self.all_reduce(i), 0)
        self.assertEqual([self.query(i) for i in range(self.N)], [0] * self.N, "nothing before the end")
        self.assertEqual(self.nccl.ncclGroupEnd(), 0)
        for s in self.streams:
            self.cuda.synchronize(s)
        self.assertEqual(self.nccl.ncclGroupEnd(), 5)

    def test_messages_wait_for_their_pair_alone(self):
        n = ctypes.c_size_t(16)
        self.nccl.ncclSend(None, n, FLOAT32, 1, self.comm(0), self.streams[0])
        self.assertEqual(self.query(0), 600)
        self.nccl.ncclRecv(None, n, FLOAT32, 0, self.comm(1), self.streams[1])
        self.cuda.synchronize(self.streams[0])
        self.cuda.synchronize(self.streams[1])
        self.nccl.ncclRecv(None, n, FLOAT32, 2, self.comm(1), self.streams[1])
        self.assertEqual([self.query(0), self.query(1)], [0, 600])
        self.nccl.ncclSend(None, n, FLOAT32, 1, self.comm(2), self.streams[2])
        self.cuda.synchronize(self.streams[1])

    def test_many_in_a_row_on_several_streams(self):
        other = [self.stream(1) for _ in range(self.N)]
        for k in range(100):
            for i in range(self.N):
                self.assertEqual(self.all_reduce(i, stream=other[i] if k % 3 == 0 else None), 0)
        for s in self.streams + other:
            self.cuda.synchronize(s)

    def test_a_graph_is_a_new_collective_at_each_launch(self):
        runs = []
        for i, s in enumerate(self.streams):
            graph, run = ctypes.c_void_p(), ctypes.c_void_p()
            self.cuda.call("cudaStreamBeginCapture", s, 1)
            self.cuda.launch(self.short, s)
            self.assertEqual(self.all_reduce(i), 0)
            self.cuda.launch(self.short, s)
            self.cuda.call("cudaStreamEndCapture", s, ctypes.byref(graph))
            n = ctypes.c_size_t()
            self.cuda.call("cudaGraphGetNodes", graph, None, ctypes.byref(n))
            self.assertEqual(n.value, 3)
            self.cuda.call("cudaGraphInstantiate", ctypes.byref(run), graph, ctypes.c_ulonglong(0))
            self.cuda.call("cudaGraphDestroy", graph)
            runs.append(run)
        for _ in range(5):
            for i in (2, 0):
                self.cuda.call("cudaGraphLaunch", runs[i], self.streams[i])
            begin = time.monotonic()
            while time.monotonic() - begin < 10 * ms:
                self.assertEqual(self.query(0), 600)
            self.cuda.call("cudaGraphLaunch", runs[1], self.streams[1])
            for s in self.streams:
                self.cuda.synchronize(s)
        self.assertEqual(self.nccl.ncclCommAbort(self.comm(0)), 0)
        self.comms[0] = None
        self.assertEqual(self.lib.cudaGraphLaunch(runs[0], self.streams[0]), 1)

    def test_abort_lets_go_of_this_rank_alone(self):
        self.all_reduce(0)
        self.all_reduce(1)
        self.assertEqual(self.nccl.ncclCommAbort(self.comm(0)), 0)
        self.cuda.synchronize(self.streams[0])
        self.assertEqual(self.query(1), 600)
        self.assertEqual(self.nccl.ncclCommAbort(self.comm(1)), 0)
        self.cuda.synchronize(self.streams[1])
        self.assertEqual(self.nccl.ncclCommAbort(self.comm(2)), 0)
        self.assertEqual(self.all_reduce(0), 4)
        for i in range(self.N):
            self.comms[i] = None

    def test_abort_lets_go_of_a_thread_that_waits(self):
        for _ in range(20):
            self.all_reduce(0)
            t = threading.Thread(target=self.cuda.synchronize, args=(self.streams[0],))
            t.start()
            self.assertEqual(self.nccl.ncclCommAbort(self.comm(0)), 0)
            t.join()
            for i in range(1, self.N):
                self.assertEqual(self.nccl.ncclCommAbort(self.comm(i)), 0)
            self.assertEqual(self.nccl.ncclCommInitAll(self.comms, self.N, None), 0)

    def test_more_communicators_than_there_may_be_at_a_time(self):
        for _ in range(300):
            c, ident = ctypes.c_void_p(), (ctypes.c_char * 128)()
            self.assertEqual(self.nccl.ncclGetUniqueId(ident), 0)
            self.assertEqual(self.nccl.ncclCommInitRankScalable(ctypes.byref(c), 1, 0, 1, ident, None), 0)
            self.assertEqual(self.nccl.ncclAllReduce(
                None, None, ctypes.c_size_t(1), FLOAT32, SUM, c, self.streams[0]), 0)
            self.assertEqual(self.nccl.ncclCommDestroy(c), 0)
        self.cuda.synchronize(self.streams[0])

    def test_split(self):
        new, threads = (ctypes.c_void_p * self.N)(), []

        def split(i):
            at = ctypes.cast(ctypes.addressof(new) + 8 * i, ctypes.POINTER(ctypes.c_void_p))
            self.assertEqual(self.nccl.ncclCommSplit(self.comm(i), -1 if i == 1 else 5, -i, at, None), 0)

        for i in range(self.N):
            threads.append(threading.Thread(target=split, args=(i,)))
            threads[-1].start()
        for t in threads:
            t.join()
        self.assertIsNone(new[1])
        for i, want in ((0, 1), (2, 0)):
            v, c = ctypes.c_int(), ctypes.c_void_p(new[i])
            self.nccl.ncclCommUserRank(c, ctypes.byref(v))
            self.assertEqual(v.value, want, "a smaller key comes first")
            self.nccl.ncclCommCount(c, ctypes.byref(v))
            self.assertEqual(v.value, 2)
            self.assertEqual(self.nccl.ncclCommDestroy(c), 0)

    def test_wrong_arguments(self):
        s, n = self.streams[0], ctypes.c_size_t(1)
        self.assertEqual(self.all_reduce(0, dtype=12), 4)
        self.assertEqual(self.all_reduce(0, op=5), 4)
        self.assertEqual(self.nccl.ncclBroadcast(None, None, n, FLOAT32, self.N, self.comm(0), s), 4)
        self.assertEqual(self.nccl.ncclSend(None, n, FLOAT32, -1, self.comm(0), s), 4)
        self.assertEqual(self.nccl.ncclAllGather(None, None, n, FLOAT32, None, s), 4)
        self.nccl.ncclGetLastError.restype = self.nccl.ncclGetErrorString.restype = ctypes.c_char_p
        self.assertEqual(self.nccl.ncclGetLastError(None), b"no such communicator")
        self.assertIn(b"invalid argument", self.nccl.ncclGetErrorString(4))
        v = ctypes.c_int()
        self.nccl.ncclGetVersion(ctypes.byref(v))
        self.assertEqual(v.value, 22803)


if __name__ == "__main__":
    unittest.main()
