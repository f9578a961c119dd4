package proc

import (
	"os"
	"path/filepath"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

func TestMeterOnThisMachine(t *testing.T) {
	m, err := NewMeter(FS{})
	if err != nil {
		t.Fatal(err)
	}
	var h tick.Host
	var s tick.Self
	if err := m.Read(&h, &s); err != nil {
		t.Fatal(err)
	}
	if h.CPUs < 1 || h.CPU < 0 || h.CPU > 1 || h.MemTotal <= 0 || h.MemAvail <= 0 || h.MemAvail > h.MemTotal || h.SwapUsed > h.SwapTotal {
		t.Errorf("host = %+v", h)
	}
	if s.RSS < 1<<20 || s.RSS > h.MemTotal {
		t.Errorf("RSS = %d", s.RSS)
	}
	first := s.CPU
	testkit.Eventually(t, "the CPU time of waiting to be counted", func() bool {
		if err := m.Read(&h, &s); err != nil {
			t.Fatal(err)
		}
		return s.CPU > first
	})
}

func TestMeterShare(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"meminfo":    "MemTotal: 4 kB\nMemAvailable: 3 kB\nSwapTotal: 2 kB\nSwapFree: 1 kB\n",
		"loadavg":    "0.50 0.25 0.75 1/2 3\n",
		"self/statm": "900 256 10\n",
	} {
		write(t, filepath.Join(root, name), text)
	}
	// user nice system idle iowait irq softirq steal guest guest_nice
	const cpus = "cpu0 1 1\ncpu1 1 1\nintr 9\n"
	write(t, filepath.Join(root, "stat"), "cpu  100 0 100 700 100 0 0 0 50 0\n"+cpus)
	m, err := NewMeter(FS{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, stat string
		want       float64
	}{
		{"busy by half", "cpu  110 0 110 715 105 0 0 0 60 0\n", 0.5},
		{"no time has passed", "cpu  110 0 110 715 105 0 0 0 60 0\n", 0.5},
		{"idle", "cpu  110 0 110 725 105 0 0 0 60 0\n", 0},
		{"stolen and interrupted", "cpu  110 0 110 725 105 5 5 10 60 0\n", 1},
		{"a CPU went away", "cpu  60 0 60 300 105 0 0 0 60 0\n", 1},
		{"and time goes on", "cpu  61 0 60 303 105 0 0 0 60 0\n", 0.25},
	} {
		write(t, filepath.Join(root, "stat"), tt.stat+cpus)
		var h tick.Host
		var s tick.Self
		if err := m.Read(&h, &s); err != nil {
			t.Fatal(err)
		}
		want := tick.Host{CPU: tt.want, CPUs: 2, MemTotal: 4096, MemAvail: 3072, SwapTotal: 2048, SwapUsed: 1024, Load: [3]float64{0.5, 0.25, 0.75}}
		if h != want {
			t.Errorf("%s: host = %+v, want %+v", tt.name, h, want)
		}
		if s.RSS != 256*int64(os.Getpagesize()) {
			t.Errorf("%s: RSS = %d", tt.name, s.RSS)
		}
	}
}

// A missing file does not affect what the others provide.
func TestMeterWithoutParts(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "loadavg"), "0.50 0.25 0.75 1/2 3\n")
	var m Meter
	m.fs = FS{Root: root}
	var h tick.Host
	var s tick.Self
	if err := m.Read(&h, &s); err == nil {
		t.Error("no error without stat and meminfo")
	}
	if h.Load[0] != 0.5 || s.CPU == 0 {
		t.Errorf("host = %+v, self = %+v", h, s)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkMeter(b *testing.B) {
	m, err := NewMeter(FS{})
	if err != nil {
		b.Fatal(err)
	}
	var h tick.Host
	var s tick.Self
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Read(&h, &s); err != nil {
			b.Fatal(err)
		}
	}
}
