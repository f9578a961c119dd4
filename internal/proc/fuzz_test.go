package proc

import (
	"bytes"
	"os"
	"testing"

	"ingero/internal/tick"
)

// seedFrom adds files of the running kernel as seeds.
func seedFrom(f *testing.F, paths ...string) {
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzStatus(f *testing.F) {
	seedFrom(f, "/proc/self/status", "/proc/1/status")
	f.Add([]byte(statusText))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStatus(b); err == nil && s.npids > maxNesting {
			t.Errorf("%d numbers", s.npids)
		}
	})
}

func FuzzStat(f *testing.F) {
	seedFrom(f, "/proc/self/stat", "/proc/2/stat")
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && len(unescape(s.comm)) > len(b) {
			t.Errorf("command %q", s.comm)
		}
	})
}

func FuzzCgroup(f *testing.F) {
	seedFrom(f, "/proc/self/cgroup")
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := parseCgroup(b); got == "" || got[0] != '/' {
			t.Errorf("parseCgroup = %q", got)
		}
	})
}

func FuzzMapLine(f *testing.F) {
	for _, line := range []string{
		"00400000-0065b000 r-xp 00000000 fe:00 1838115                            /usr/bin/python3.11",
		"7f1c2e000000-7f1c2e021000 rw-p 00000000 00:00 0 ",
		"7f1c36a1d000-7f1c36a1f000 r--p 001d1000 fe:00 2883597                    /opt/cuda 12/lib64/libcudart.so.12",
		"7f1c36b00000-7f1c36b01000 r--s 00000000 00:01 4242                       /memfd:ring (deleted)",
		"7ffd3b9f5000-7ffd3ba16000 rw-p 00000000 00:00 0                          [stack]",
		"7ffd3bb1b000-7ffd3bb1d000 r-xp 00000000 00:00 0                          [vdso]",
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var m mapLine
		if parseMapLine(line, &m) && m.mapping().End < m.start {
			t.Errorf("mapping %+v", m.mapping())
		}
		Names{}.match(line, Key{})
	})
}

func FuzzHost(f *testing.F) {
	seedFrom(f, "/proc/stat", "/proc/meminfo", "/proc/loadavg")
	f.Fuzz(func(t *testing.T, b []byte) {
		var h tick.Host
		if parseMeminfo(b, &h) == nil && (h.MemTotal < 0 || h.SwapUsed < 0) {
			t.Errorf("host %+v", h)
		}
		if c, err := parseCPUTimes(b); err == nil && c.cpus < 0 {
			t.Errorf("times %+v", c)
		}
		if load, err := parseLoad(b); err == nil && load[0] < 0 {
			t.Errorf("load %v", load)
		}
	})
}

func FuzzMmap2(f *testing.F) {
	f.Add(mmap2Bytes("/usr/lib/libcudart.so.12"), uint16(0))
	f.Add(mmap2Bytes("//anon"), uint16(perfMiscMmapBuildID))
	f.Fuzz(func(t *testing.T, rec []byte, misc uint16) {
		var ev MapEvent
		if decodeMmap2(rec, misc, Names{}, &ev) && (ev.PID == 0 || ev.Library.Lib == 0 || ev.Library.End < ev.Library.Start) {
			t.Errorf("event %+v", ev)
		}
	})
}

// Invalid contents of a buffer, which the kernel writes, must not hang the reader or stay in the
// buffer.
func FuzzPerfRing(f *testing.F) {
	f.Add(append(mmap2Bytes("/usr/lib/libcuda.so.1"), mmap2Bytes("/x")...), uint64(0), uint64(256))
	f.Add(bytes.Repeat([]byte{8, 0}, 64), uint64(120), uint64(1<<63))
	f.Fuzz(func(t *testing.T, data []byte, tail, n uint64) {
		const page = 4096
		mem := make([]byte, page+8192)
		copy(mem[page:], data)
		r, err := newPerfRing(mem, page)
		if err != nil {
			t.Fatal(err)
		}
		*r.tail, *r.head = tail&^7, tail&^7+n
		total := uint64(0)
		whole := r.drain(func(_ uint32, _ uint16, rec []byte) { total += uint64(len(rec)) })
		if *r.tail != *r.head {
			t.Errorf("tail %d, head %d", *r.tail, *r.head)
		}
		if total > n || whole && total != n {
			t.Errorf("%d bytes of %d, whole %v", total, n, whole)
		}
	})
}
