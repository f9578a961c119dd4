package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/gpu"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/xid"
)

// Each kind of failure has its own message and remedy.
func TestXidErrors(t *testing.T) {
	none := fmt.Errorf("nvidia:nvidia_dev_xid: %w", probes.ErrNoTracepoint)
	driver := func(v string) gpu.Info { return gpu.Info{Driver: gpu.Driver{Version: v}} }
	for _, tt := range []struct {
		name     string
		err      error
		info     gpu.Info
		loaded   bool
		what, do string
	}{
		{"no driver", none, gpu.Info{}, false, "the NVIDIA driver is not loaded", "modprobe nvidia"},
		{"old driver", none, driver("550.163.01"), true, "driver 550.163.01 has no tracepoint nvidia:nvidia_dev_xid: it requires driver 575", "--source log"},
		{"no tracefs", none, driver("580.95.05"), true, "is not visible here", "mount -t tracefs"},
		{"no BTF", fmt.Errorf("%w: %w", probes.ErrNoBTF, errors.ErrUnsupported), driver("580.95.05"), true, "no BTF (/sys/kernel/btf/vmlinux)", "CONFIG_DEBUG_INFO_BTF=y"},
		{"no right", fmt.Errorf("attach: %w", syscall.EPERM), driver("580.95.05"), true, "not permitted", "sudo ingero xid"},
		{"no right, and no tracepoint", errors.Join(none, &fs.PathError{Op: "open", Path: xid.LogPath, Err: syscall.EPERM}), gpu.Info{}, false, "not permitted", "CAP_SYSLOG"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p *problem
			if err := xidProblem(tt.err, tt.info, tt.loaded); !errors.As(err, &p) {
				t.Fatalf("no words for %v", err)
			}
			if !strings.Contains(p.What, tt.what) || !strings.Contains(p.Do, tt.do) || !errors.Is(p, tt.err) {
				t.Errorf("got %q, %q", p.What, p.Do)
			}
		})
	}
}

// logLine writes a line to the kernel log.
func logLine(t *testing.T, line string) {
	t.Helper()
	f, err := os.OpenFile(xid.LogPath, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	testkit.NeedKernel(t, fmt.Sprintf("a log that can be written (%v)", err), err == nil)
}

// xid says that it waits, shows faults as they arrive in their known form, names the affected
// process, and ends on Ctrl-C; --list shows them too.
func TestXidWatch(t *testing.T) {
	testkit.KernelLog(t, false)
	victim := testkit.Start(t, exec.Command("cat"))
	_, variable := testLock(t.TempDir())
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), variable)
		return cmd
	}
	c := testkit.Start(t, run("xid", "--source", "log"))
	testkit.Eventually(t, "the banner", func() bool { return strings.Contains(c.Stderr(), "Kernel log: /dev/kmsg\n") })
	if s := c.Stderr(); !strings.Contains(s, " Waiting for NVIDIA XID events... (press Ctrl+C to exit)\n") {
		t.Errorf("banner:\n%s", s)
	}
	pci := fmt.Sprintf("%08x:75:00", 0x20000000+rand.Uint32N(1<<28))
	logLine(t, "NVRM: Xid (PCI:"+pci+"): 172, SM ICACHE, Uncorrectable SRAM error in GPC 7 TPC 6")
	logLine(t, fmt.Sprintf("NVRM: Xid (PCI:%s): 48, pid=%d, name=cat, Ch 0000000a", pci, victim.PID()))
	logLine(t, "NVRM: Xid (PCI:"+pci+"): 13, pid='<unknown>', name=<unknown>, Ch 0000000b")
	testkit.Eventually(t, "the last fault", func() bool { return strings.Contains(c.Stdout(), "code=13 pci="+pci) })
	rest := c.Stdout()
	for _, want := range []string{
		"XID event received: code=172 pci=" + pci + " msg=SM ICACHE, Uncorrectable SRAM error in GPC 7 TPC 6",
		"the first of its burst",
		fmt.Sprintf("XID event received: code=48 pci=%s msg=pid=%d, name=cat, Ch 0000000a", pci, victim.PID()),
		"after 172, the root of its burst",
		fmt.Sprintf("    Hit cat (%d)", victim.PID()),
		"XID event received: code=13 pci=" + pci + " msg=pid='<unknown>', name=<unknown>, Ch 0000000b",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("no %q in\n%s", want, c.Stdout())
		}
		rest = after
	}
	c.Signal(syscall.SIGINT)
	if err := c.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, c.Stderr())
	}
	listed(t, run("xid", "--list", "--since", "1h", "--json"), pci, victim.PID())
}

// A trace shows new faults and records them with the last calls of the affected process, and
// explain gives their meaning.
func TestTraceTellsFaults(t *testing.T) {
	b := newBench(t)
	testkit.KernelLog(t, false)
	job := b.train("--seconds", "60")
	c := b.ingero("trace", "--json", "--pid", pid(job))
	job.Send("go")
	b.tracing(1)
	testkit.Eventually(t, "calls", func() bool { return strings.Contains(c.Stdout(), `"op":"cudaStreamSync`) })
	pci := fmt.Sprintf("%08x:75:00", 0x20000000+rand.Uint32N(1<<28))
	logLine(t, "NVRM: Xid (PCI:"+pci+"): 172, SM ICACHE, Uncorrectable SRAM error in GPC 7 TPC 6")
	logLine(t, fmt.Sprintf("NVRM: Xid (PCI:%s): 48, pid=%d, name=train, DBE", pci, job.PID()))
	logLine(t, fmt.Sprintf("NVRM: Xid (PCI:%s): 13, pid=%d, name=train, Ch 00000008", pci, job.PID()))
	testkit.Eventually(t, "the faults", func() bool {
		return strings.Contains(c.Stdout(), `"code":13,"name":"GR_EXCEPTION","severity":"warning","pci":"`+pci)
	})
	c.Signal(syscall.SIGINT)
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("code %d:\n%s", code, stderr)
	}
	where := " FROM xids WHERE bus = '" + pci + "'"
	for sql, want := range map[string]string{
		"SELECT group_concat(code), min(root), max(root)" + where:                  `"172,48,13",172,172`,
		"SELECT pid, comm, json_array_length(last) > 0" + where + " AND code = 48": pid(job) + ",train,1",
		"SELECT count(*)" + where + " AND last LIKE '%\"op\":\"cuda%'":             "1",
	} {
		if out, _, _ := b.output("query", "--csv", sql); !strings.HasSuffix(strings.TrimSpace(out), "\n"+want) {
			t.Errorf("%s: got %q, want %q", sql, out, want)
		}
	}
	for _, args := range [][]string{{"explain"}, {"explain", "--pid", pid(job)}, {"explain", "--chains", "--per-process"}} {
		out, _, _ := b.output(args...)
		if out = strings.Join(strings.Fields(out), " "); !strings.Contains(out, "GPU "+pci+": XID 172 UNCORRECTABLE_SRAM_ERROR, then 2 more within") ||
			!strings.Contains(out, "it hit train ("+pid(job)+")") || !strings.Contains(out, "48 is more severe: Start no new work") {
			t.Errorf("%v says\n%s", args, out)
		}
	}
	if out, _, _ := b.output("explain", "--pid", "1"); strings.Contains(out, "it hit train") {
		t.Errorf("of another process:\n%s", out)
	}
}

// listed checks a list's output for the three faults.
func listed(t *testing.T, cmd *exec.Cmd, pci string, victim int) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var codes []int
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		var j struct {
			Type, PCI, Name, Meaning, Do, Via string
			Code, At, Root, PID               int
			Injected                          bool
		}
		if err := json.Unmarshal(s.Bytes(), &j); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		if j.PCI != pci {
			continue
		}
		codes = append(codes, j.Code)
		if j.Type != "xid" || j.Root != 172 || j.At != len(codes) || j.Name == "" || j.Meaning == "" || j.Do == "" || j.Via != "kernel-log" || !j.Injected {
			t.Errorf("listed as %s", s.Text())
		}
		if wants := j.Code == 48; wants != (j.PID == victim) {
			t.Errorf("process of %d: %d", j.Code, j.PID)
		}
	}
	if fmt.Sprint(codes) != "[172 48 13]" {
		t.Errorf("listed: %v", codes)
	}
}
