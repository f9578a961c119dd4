package proc

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

const statusText = `Name:	python3
Umask:	0022
State:	S (sleeping)
Tgid:	812
Pid:	812
PPid:	77
TracerPid:	0
Uid:	1000	0	0	0
Gid:	1000	1000	1000	1000
NStgid:	812	14	1
NSpid:	812	14	1
Kthread:	0
VmPeak:	    3060 kB
VmSize:	    3060 kB
Threads:	37
Seccomp:	2
Seccomp_filters:	1
x86_Thread_features:	shstk wrss
x86_Thread_features_locked:	shstk
`

func TestParseStatus(t *testing.T) {
	full := status{uid: 1000, gid: 1000, tgid: 812, ppid: 77, threads: 37, seccomp: 2, npids: 3, shadowStack: true}
	copy(full.pids[:], []uint32{812, 14, 1})
	for _, tt := range []struct {
		name, text string
		want       status
		err        error
	}{
		{name: "all there", text: statusText, want: full},
		{name: "kernel thread", text: "State:\tI (idle)\nPPid:\t2\nUid:\t0\t0\t0\t0\nKthread:\t1\nThreads:\t1\n", want: status{ppid: 2, threads: 1, kernel: true}},
		{name: "kernel thread, no line that says so", text: "State:\tI (idle)\nPPid:\t2\nUid:\t0\t0\t0\t0\nThreads:\t1\n", want: status{ppid: 2, threads: 1, kernel: true}},
		{name: "zombie", text: "State:\tZ (zombie)\nPPid:\t9\nUid:\t5\t5\t5\t5\nThreads:\t1\n", want: status{ppid: 9, uid: 5, threads: 1, zombie: true}},
		{name: "features off", text: "PPid:\t2\nUid:\t0\nVmSize:\t1 kB\nThreads:\t1\nx86_Thread_features:\t\n", want: status{ppid: 2, threads: 1}},
		{name: "empty", err: errFormat},
		{name: "no user", text: "PPid:\t2\nThreads:\t1\n", err: errFormat},
		{name: "no number", text: "PPid:\tx\nUid:\t0\nThreads:\t1\n", err: errFormat},
		{name: "huge number", text: "PPid:\t4294967296\nUid:\t0\nThreads:\t1\n", err: errFormat},
		{name: "too deep", text: "NSpid:" + string(slices.Repeat([]byte("\t1"), 34)) + "\n", err: errFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStatus([]byte(tt.text))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("parseStatus = %+v, %v, want %+v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 77 812 812 0 -1 4194560 97 0 0 0 1 2 0 0 20 0 1 0 123456 8192 0 18446744073709551615"
	for _, tt := range []struct {
		name, text, comm string
		start            uint64
		kernel, bad      bool
	}{
		{name: "plain", text: "812 (python3)" + rest, comm: "python3", start: 123456},
		{name: "parentheses and spaces", text: "812 (a) R (b ) c)" + rest, comm: "a) R (b ) c", start: 123456},
		{name: "escapes", text: `812 (a\nb\\n)` + rest, comm: "a\nb\\n", start: 123456},
		{name: "kernel thread", text: "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 11 0", comm: "kthreadd", start: 11, kernel: true},
		{name: "cut off", text: "812 (python3) S 77 812 812 0 -1 4194560 97", bad: true},
		{name: "no command", text: "812 python3 S 77", bad: true},
		{name: "turned round", text: ")(", bad: true},
		{name: "empty", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.text))
			if (err != nil) != tt.bad {
				t.Fatalf("parseStat: %v", err)
			}
			if comm := unescape(got.comm); comm != tt.comm || got.start != tt.start || got.kernel != tt.kernel {
				t.Errorf("parseStat = %q, start %d, kernel %v, want %q, %d, %v", comm, got.start, got.kernel, tt.comm, tt.start, tt.kernel)
			}
		})
	}
}

func TestParseCgroup(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unified", "0::/user.slice/user-1000.slice/session-2.scope\n", "/user.slice/user-1000.slice/session-2.scope"},
		{"hybrid, unified says it", "4:memory:/a\n3:cpu,cpuacct:/b\n0::/c\n", "/c"},
		{"hybrid, CPU says it", "4:memory:/a\n3:cpu,cpuacct:/b\n1:name=systemd:/d\n0::/\n", "/b"},
		{"hybrid, all say it", "3:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/c\n", "/c"},
		{"hybrid, Docker with cgroupfs", "4:memory:/docker/3f2b\n3:cpu,cpuacct:/docker/3f2b\n1:name=systemd:/docker/3f2b\n0::/system.slice/containerd.service\n", "/docker/3f2b"},
		{"only memory says it", "4:memory:/job/7\n3:cpu,cpuacct:/\n0::/\n", "/job/7"},
		{"cpuset is not cpu", "4:cpuset:/x\n3:cpu:/\n0::/\n", "/"},
		{"colons in the path", "0::/kubepods/cri-containerd:1f:2e\n", "/kubepods/cri-containerd:1f:2e"},
		{"outside of the namespace", "0::/../../other\n", "/../../other"},
		{"none", "", "/"},
		{"nonsense", "a\nb:c\n::\n", "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseCgroup([]byte(tt.text)); got != tt.want {
				t.Errorf("parseCgroup = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseMapLine(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       Mapping
		bad        bool
	}{
		{name: "code", line: "7f6e9c000000-7f6e9c0a1000 r-xp 00021000 fe:00 1835302                    /usr/lib/libcudart.so.12",
			want: Mapping{Start: 0x7f6e9c000000, End: 0x7f6e9c0a1000, Offset: 0x21000, Key: Key{Dev: 0xfe00, Inode: 1835302}, Path: "/usr/lib/libcudart.so.12", Exec: true}},
		{name: "deleted, with spaces", line: "1000-2000 r--p 00000000 00:01 7   /a b/c d (deleted)",
			want: Mapping{Start: 0x1000, End: 0x2000, Key: Key{Dev: 1, Inode: 7}, Path: "/a b/c d", Deleted: true}},
		{name: "newline in the name", line: `1000-2000 r-xp 00000000 00:01 7   /a\012b`,
			want: Mapping{Start: 0x1000, End: 0x2000, Key: Key{Dev: 1, Inode: 7}, Path: "/a\nb", Exec: true}},
		{name: "large device", line: "1000-2000 r-xp 00000000 103:1ffff 7   /a",
			want: Mapping{Start: 0x1000, End: 0x2000, Key: Key{Dev: 0x1ff103ff, Inode: 7}, Path: "/a", Exec: true}},
		{name: "anonymous", line: "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 ",
			want: Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Exec: true}},
		{name: "nothing behind the inode", line: "1000-2000 rw-p 00000000 00:00 0", want: Mapping{Start: 0x1000, End: 0x2000}},
		{name: "empty", bad: true},
		{name: "ends in the middle", line: "1000-2000 r-xp 00000000 00:", bad: true},
		{name: "backwards", line: "2000-1000 r-xp 00000000 00:01 7 /a", bad: true},
		{name: "too long a number", line: "11112222333344445-2 r-xp 00000000 00:01 7 /a", bad: true},
		{name: "upper case", line: "A000-B000 r-xp 00000000 00:01 7 /a", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m mapLine
			if ok := parseMapLine([]byte(tt.line), &m); ok == tt.bad {
				t.Fatalf("parseMapLine = %v", ok)
			}
			if tt.bad {
				return
			}
			if diff := cmp.Diff(tt.want, m.mapping()); diff != "" {
				t.Errorf("mapping (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,8": {0, 2, 3, 8},
		"": nil, "0-": nil, "3-1": nil, "a": nil, "0,0": nil, "1,0": nil, "0-99999": nil, "0-1x": nil, ",": nil, "0;1": nil,
	} {
		t.Run(list, func(t *testing.T) {
			got, err := parseCPUs(list)
			if !slices.Equal(got, want) || (err != nil) != (want == nil) {
				t.Errorf("parseCPUs = %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestParseMeminfo(t *testing.T) {
	const text = "MemTotal:       16000 kB\nMemFree:         500 kB\nMemAvailable:    8000 kB\nSwapTotal:       2000 kB\nSwapFree:        1500 kB\nHugePages_Total:       0\n"
	var got tick.Host
	if err := parseMeminfo([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := tick.Host{MemTotal: 16000 << 10, MemAvail: 8000 << 10, SwapTotal: 2000 << 10, SwapUsed: 500 << 10}
	if got != want {
		t.Errorf("host = %+v, want %+v", got, want)
	}
	for name, bad := range map[string]string{"empty": "", "no number": "MemTotal: x kB\n", "some": "MemTotal: 5 kB\n"} {
		t.Run(name, func(t *testing.T) {
			if err := parseMeminfo([]byte(bad), &got); !errors.Is(err, errFormat) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestParseLoad(t *testing.T) {
	if got, err := parseLoad([]byte("0.52 12.03 128.99 2/611 4432\n")); err != nil || got != [3]float64{0.52, 12.03, 128.99} {
		t.Errorf("parseLoad = %v, %v", got, err)
	}
	for _, bad := range []string{"", "1", "1.0 2.0", "1.00 2.00 3.00", "1.00 x 3.00 1/1 1", "1.999 2.00 3.00 1/1 1"} {
		t.Run(bad, func(t *testing.T) {
			if got, err := parseLoad([]byte(bad)); !errors.Is(err, errFormat) {
				t.Errorf("parseLoad = %v, %v", got, err)
			}
		})
	}
}
