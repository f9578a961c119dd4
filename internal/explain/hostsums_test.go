package explain

import (
	"strings"
	"testing"

	"ingero/internal/tick"
)

// hostSums returns sums of every kind.
func hostSums() []tick.HostSum {
	var all tick.HostSums
	add := func(kind tick.HostEvent, pid uint32, comm, object string, count, bytes, each uint64) {
		s := tick.HostSum{HostKey: tick.HostKey{Kind: kind, PID: pid, Object: object}, Comm: comm, Count: count, Bytes: bytes, NS: each * max(count, 1)}
		if kind.Row().PID && each > 0 {
			for range count {
				s.Hist.Add(each)
			}
		}
		if kind == tick.HostSignal || kind == tick.HostLockRefused {
			s.Sender = 711
		}
		all.Add([]tick.HostSum{s})
	}
	add(tick.HostDiskRead, 4821, "python3", "nvme0n1", 1200, 300<<20, 90_000)
	add(tick.HostDiskRead, 9001, "rsync", "nvme0n1", 5000, 5<<30, 400_000)
	add(tick.HostDiskRead, 9002, "tar", "nvme0n1", 100, 1<<20, 300_000)
	add(tick.HostDiskRead, 0, "", "nvme0n1", 10, 1<<20, 300_000)
	add(tick.HostDiskWrite, 77, "jbd2/nvme0n1", "nvme0n1", 3, 12288, 2_000_000)
	add(tick.HostDiskFlush, 77, "jbd2/nvme0n1", "nvme0n1", 3, 0, 7_000_000)
	add(tick.HostReclaim, 4821, "python3", "", 2, 8<<20, 30_000_000)
	add(tick.HostCgroupReclaim, 4822, "python3", "", 40, 80<<20, 3_000_000)
	add(tick.HostOOM, 5000, "loader", "/kubepods/pod1", 1, 0, 0)
	add(tick.HostSignal, 4821, "kubelet", "SIGTERM", 1, 0, 0)
	add(tick.HostRetransmit, 4821, "python3", "10.0.0.7:29500", 12, 17000, 0)
	add(tick.HostConnect, 4821, "python3", "10.0.0.7:29500", 2, 0, 1_000_000)
	add(tick.HostSend, 4821, "python3", "10.0.0.7:29500", 900, 90<<20, 250_000)
	add(tick.HostReceive, 4821, "python3", "10.0.0.7:29500", 900, 90<<20, 0)
	add(tick.HostUDPSend, 4821, "python3", "10.0.0.2:53", 6, 252, 0)
	add(tick.HostUDPReceive, 4821, "python3", "10.0.0.2:53", 5, 405, 0)
	add(tick.HostUnixSend, 4821, "python3", "/run/tokenizer.sock", 900, 9<<20, 0)
	add(tick.HostUnixReceive, 4821, "python3", "", 900, 9<<20, 0)
	add(tick.HostLockRefused, 4821, "python3", "data.lock", 40, 0, 0)
	add(tick.HostGPUOpen, 5210, "python3", "GPU 0", 1, 0, 0)
	add(tick.HostPages, 4821, "python3", "order-0", 5000, 5000<<12, 0)
	add(tick.HostPages, 4821, "python3", "order-9", 3, 3<<21, 0)
	add(tick.HostMajorFault, 4821, "python3", "", 17, 0, 0)
	add(tick.HostSwapIn, 0, "", "", 10, 10<<12, 0)
	add(tick.HostSwapOut, 0, "", "", 20, 20<<12, 0)
	add(tick.HostThrottled, 0, "", "/kubepods/pod1", 14, 0, 60_000_000)
	add(tick.HostAtLimit, 0, "", "/kubepods/pod1", 9, 0, 0)
	add(tick.HostCgroupCPU, 0, "", "/kubepods/pod1", 0, 0, 4_000_000_000)
	add(tick.HostCPUPressure, 0, "", "", 0, 0, 300_000_000)
	add(tick.HostCPUPressure, 0, "", "/kubepods/pod1", 0, 0, 200_000_000)
	add(tick.HostMemoryPressure, 0, "", "", 0, 0, 40_000_000)
	add(tick.HostMemoryFull, 0, "", "", 0, 0, 10_000_000)
	add(tick.HostIOPressure, 0, "", "", 0, 0, 50_000_000)
	add(tick.HostIOFull, 0, "", "", 0, 0, 20_000_000)
	add(tick.HostIRQ, 0, "", "", 0, 0, 10_000_000)
	add(tick.HostSoftIRQ, 0, "", "", 0, 0, 30_000_000)
	add(tick.HostSteal, 0, "", "", 0, 0, 20_000_000)
	add(tick.HostIOWait, 0, "", "", 0, 0, 70_000_000)
	add(tick.HostCPUsTaken, 4821, "python3", "", 2, 0, 0)
	add(tick.HostLimit, 4821, "python3", "800000 100000 in /kubepods/pod1 at /sys/fs/cgroup/kubepods/pod1/cpu.max", 14, 0, 60_000_000)
	add(tick.HostThreads, 4821, "python3", "192 python3", 0, 0, 7_000_000_000)
	add(tick.HostRefault, 4821, "python3", "", 2500, 2500<<12, 0)
	return all.List()
}

// hostTick is a second with every possible host event.
func hostTick() *tick.Tick {
	t := liveTick()
	t.HostSums = hostSums()
	for _, part := range []string{"page-allocations", "sockets"} {
		t.Reports = append(t.Reports, tick.Report{Kind: "host-off", Object: part, Why: "it was not asked for"})
	}
	return t
}

// Each kind has a line.
func TestHostLines(t *testing.T) {
	sums := hostSums()
	titles := map[string]bool{}
	for _, l := range hostLines(sums) {
		titles[l.title] = true
		if l.text == "" || strings.Contains(l.text, "0 B") {
			t.Errorf("%s: %q", l.title, l.text)
		}
	}
	for i := range sums {
		if title := sums[i].Kind.Row().Title; !titles[title] {
			t.Errorf("no line says %q", title)
		}
	}
	for k, row := range tick.HostRows {
		if row.Name != "" && !titles[row.Title] {
			t.Errorf("no case has kind %v", tick.HostEvent(k))
		}
	}
}

// JSON has the cgroup of an OOM kill as processes have theirs, the text also whether it was at a limit.
func TestOOMObject(t *testing.T) {
	sums := []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostOOM, PID: 7, Object: tick.OOMObject("/job", false)}, Comm: "loader", Count: 1}}
	if got := hostSumsOf(sums)[0].Object; got != "/job" {
		t.Errorf("JSON: %q", got)
	}
	if got := hostLines(sums)[0].text; !strings.HasSuffix(got, "loader (7) in /job (no limit reached)") {
		t.Errorf("text: %q", got)
	}
}

// Names chosen by a process are cleaned before they reach the terminal.
func TestHostNamesAreCleaned(t *testing.T) {
	const evil = "a\x1b[2Jb\nc"
	sums := []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 7, Object: evil}, Comm: evil, Count: 1},
		{HostKey: tick.HostKey{Kind: tick.HostSignal, PID: 7, Sender: 8, Object: "SIGKILL"}, Comm: evil, Count: 1},
		{HostKey: tick.HostKey{Kind: tick.HostThrottled, Object: evil}, Count: 1}}
	for _, l := range hostLines(sums) {
		if strings.ContainsAny(l.text, "\x1b\n") {
			t.Errorf("%s: %q", l.title, l.text)
		}
	}
	for _, j := range hostSumsOf(sums) {
		if strings.ContainsAny(j.Comm+j.Object, "\x1b\n") {
			t.Errorf("%+v", j)
		}
	}
}
