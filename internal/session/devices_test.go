package session

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/xid"
	"ingero/pkg/events"
)

func TestDevices(t *testing.T) {
	d := devices{195, 510}
	waits := []events.Wait{
		{Reason: events.ReasonDevice, Dev: 195<<20 | 255},
		{Reason: events.ReasonDevice, Dev: 510 << 20},
		{Reason: events.ReasonDevice, Dev: 5<<20 | 195},
		{Reason: events.ReasonDisk, Dev: 195 << 20},
	}
	d.waits(waits)
	for i, want := range []events.Reason{events.ReasonGPU, events.ReasonGPU, events.ReasonDevice, events.ReasonDisk} {
		if waits[i].Reason != want {
			t.Errorf("device %#x: %v, want %v", waits[i].Dev, waits[i].Reason, want)
		}
	}
}

// A module that is loaded after the driver, such as nvidia-uvm, gets its major number later.
func TestFindMajors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices")
	g := gpus{fs: proc.FS{Root: filepath.Dir(path)}}
	for _, step := range []struct {
		devices string
		calls   int
		want    string
	}{
		{"Character devices:\n  1 mem\n", 3, "[]"},
		{"Character devices:\n  1 mem\n195 nvidia\n", 1, "[195]"},
		{"Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n", 10, "[195 510]"},
	} {
		if err := os.WriteFile(path, []byte(step.devices), 0o600); err != nil {
			t.Fatal(err)
		}
		for range step.calls {
			g.find()
		}
		if got := fmt.Sprint(g.majors); got != step.want {
			t.Errorf("majors %s, want %s, of\n%s", got, step.want, step.devices)
		}
	}
}

// Without the kernel log, the tracepoint shows faults, but not their processes. While the driver is not
// loaded, there are none.
func TestFaultReports(t *testing.T) {
	way := func(xids *probes.Xids, kmsg *xid.Log, tracepoint, log error) *Faults {
		return &Faults{xids: xids, kmsg: kmsg, errs: map[tick.XidVia]error{tick.ViaTracepoint: tracepoint, tick.ViaKernelLog: log}}
	}
	early := way(nil, nil, probes.ErrNoTracepoint, fs.ErrNotExist)
	early.early = true
	for _, tt := range []struct {
		name string
		f    *Faults
		want string
	}{
		{"tracepoint only", way(&probes.Xids{}, nil, nil, fs.ErrNotExist), "[{fault-process-unknown kernel-log file does not exist}]"},
		{"log only", way(nil, &xid.Log{}, probes.ErrNoTracepoint, nil), "[]"},
		{"log only, tracepoint refused", way(nil, &xid.Log{}, fs.ErrPermission, nil), "[{faults-unseen tracepoint permission denied}]"},
		{"neither yet", early, "[]"},
		{"neither", way(nil, nil, probes.ErrNoTracepoint, fs.ErrNotExist), "[{faults-unseen kernel-log no such tracepoint\nfile does not exist}]"},
	} {
		if got := fmt.Sprint(tt.f.Reports()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
