package native

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// After 50 short-lived processes only data of their files remains, and goes once no process maps
// them.
func TestChurn(t *testing.T) {
	dir := target(t, "-O2", "-g")
	now := time.Unix(1000, 0)
	s := newSymbolizer(t, Limits{}, func() time.Time { return now })
	var ips []uint64
	var held, cold []int
	for i := range 50 {
		c := testkit.Start(t, exec.Command("setarch", "-R", filepath.Join(dir, "target")))
		c.Line("ready")
		if i == 0 {
			ips = addresses(backtrace(t, c.PID()))
		}
		pid := uint32(c.PID())
		if f := s.Resolve(pid, far, ips, true); f[0].Func == "" {
			t.Fatalf("process %d: %+v", i, f)
		}
		c.Signal(syscall.SIGKILL)
		_ = c.Wait()
		s.Forget(pid)
		f := s.Figures()
		held, cold = append(held, f.Bytes), append(cold, int(f.Cold))
		if f.Processes != 0 || f.Open > 1 { // the vdso stays
			t.Fatalf("process %d: %+v", i, f)
		}
		now = now.Add(time.Second)
	}
	if held[49] > held[0] || cold[49] != cold[0] {
		t.Errorf("bytes held %v, addresses looked up %v", held, cold)
	}
	now = now.Add(time.Hour)
	s.Trim()
	if f := s.Figures(); f.Modules > 1 || f.Bytes > 64<<10 {
		t.Errorf("an hour later: %+v", f)
	}
}

// The keys of all copies of a file go with its data.
func TestKeysOfCopies(t *testing.T) {
	testkit.NeedTool(t, "cat")
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	s := newSymbolizer(t, Limits{Idle: time.Second}, func() time.Time { return now })
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		copied := filepath.Join(dir, name)
		testkit.CopyProgram(t, copied, path)
		c := testkit.Start(t, exec.Command(copied))
		c.Send("up")
		c.Line("up") // it has mapped its libraries
		pid := uint32(c.PID())
		code, err := proc.FS{}.Code(pid, time.Unix(0, far))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code {
			if m.Path == copied || m.Path == "[vdso]" {
				s.Resolve(pid, far, []uint64{m.Start + 8}, true)
			}
		}
	}
	if len(s.byKey) != 2 || len(s.modules) != 2 {
		t.Fatalf("%d keys and %d modules, want 2 and 2", len(s.byKey), len(s.modules))
	}
	for pid := range s.procs {
		s.Forget(pid)
	}
	now = now.Add(6 * time.Second)
	s.Trim()
	if len(s.byKey)+len(s.words) != 0 || len(s.modules) != 1 {
		t.Errorf("%d keys, %d strings and %d modules are left, want none but the vdso's", len(s.byKey), len(s.words), len(s.modules))
	}
}

// The memory held stays within its limit, and evicted data is read again.
func TestBounds(t *testing.T) {
	dir := target(t, "-O2", "-g")
	c := testkit.Start(t, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	pid := uint32(c.PID())
	stack := backtrace(t, c.PID())
	s := newSymbolizer(t, Limits{Bytes: 40 << 10, Processes: 4}, nil)
	list, err := proc.FS{}.Code(pid, time.Unix(0, far))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		for ip := m.Start; ip < m.End; ip += max(16, (m.End-m.Start)/30) {
			s.Resolve(pid, far, []uint64{ip}, true)
			if n := s.Figures().Bytes; n > 40<<10 {
				t.Fatalf("%d bytes after %#x of %s", n, ip, m.Path)
			}
		}
	}
	if s.Figures().Dropped == 0 {
		t.Error("nothing was let go")
	}
	agree(t, s.Resolve(pid, far, addresses(stack), true), stack)
	for i := range uint32(100) {
		s.Forked(pid, 1<<24+i)
		s.Learn(1<<25+i, list)
	}
	if n := s.Figures().Processes; n > 4 {
		t.Errorf("%d processes", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	dir := target(b, "-O2", "-g")
	c := testkit.Start(b, exec.Command(filepath.Join(dir, "target")))
	c.Line("ready")
	ips := addresses(backtrace(b, c.PID()))
	b.Run(fmt.Sprintf("warm, %d addresses", len(ips)), func(b *testing.B) {
		s := newSymbolizer(b, Limits{}, nil)
		s.Resolve(uint32(c.PID()), far, ips, true)
		b.ReportAllocs()
		for b.Loop() {
			s.Resolve(uint32(c.PID()), far, ips, true)
		}
		b.ReportMetric(float64(s.Figures().Bytes), "held-B")
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			s := New(proc.FS{}, Limits{}, nil)
			s.Resolve(uint32(c.PID()), far, ips, true)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
