package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"ingero/internal/probes"
	"ingero/internal/wire"
	"ingero/internal/xid"
)

// driverFloor is the oldest supported driver branch.
const driverFloor = 550

func driverLine(f *facts) []wire.CheckLine {
	l := wire.CheckLine{ID: "driver", Name: "NVIDIA driver", State: OK, Value: f.gpus.Driver.Version}
	if l.Value == "" {
		l.State, l.Value = Lack, "none loaded"
		l.Note = "no CUDA program can run on this machine; ingero demo uses a simulated GPU"
		if f.gpuErr != nil {
			l.Note = f.gpuErr.Error()
		}
		return []wire.CheckLine{l}
	}
	flavour := "proprietary kernel modules"
	if f.gpus.Driver.Open {
		flavour = "open kernel modules"
	}
	l.Note = fmt.Sprintf("%s (%d+)", flavour, driverFloor)
	var major int
	if _, err := fmt.Sscanf(l.Value, "%d.", &major); err != nil || major < driverFloor {
		l.State = Lack
		l.Note = fmt.Sprintf("%s; ingero supports %d and later", flavour, driverFloor)
		l.Do = "install a newer driver if ingero trace misses calls"
	}
	return []wire.CheckLine{l}
}

func gpuLine(f *facts) []wire.CheckLine {
	var all []string
	l := wire.CheckLine{ID: "gpu", Name: "GPU model", State: OK}
	for _, g := range f.gpus.GPUs {
		it := wire.CheckItem{Name: g.Model, Path: g.Node, MiB: g.Memory >> 20}
		if it.Name == "" {
			it.Name = "unknown model at " + g.Bus
		}
		if g.Excluded {
			it.Name += " (excluded by the administrator)"
		}
		l.Items = append(l.Items, it)
		all = append(all, itemText(&it))
	}
	switch {
	case len(all) == 0 && f.gpus.Driver.Version == "":
		l.State, l.Value = Lack, "none"
		return []wire.CheckLine{l}
	case len(all) == 0:
		l.State, l.Value, l.Note = Lack, "none found", "the driver is loaded but reports no GPU"
	default:
		l.Value = strings.Join(all, "; ")
	}
	if f.gpuErr != nil {
		l.State, l.Note = Lack, f.gpuErr.Error()
	}
	if len(f.gpus.Nodes) == 0 && len(all) > 0 {
		l.State, l.Note, l.Do = Lack, "no device files here: processes in this container cannot use the GPU", "docker run --gpus all"
	}
	return []wire.CheckLine{l}
}

// readLog says how to let ingero read the kernel log.
const readLog = "sudo ingero check; in a container: --device /dev/kmsg --cap-add SYSLOG"

// faultLine reports the source of GPU faults (XIDs), if there is a driver.
func faultLine(f *facts) []wire.CheckLine {
	if f.gpus.Driver.Version == "" {
		return nil
	}
	at := probes.XidTracepoints[0]
	l := wire.CheckLine{ID: "gpu-faults", Name: "GPU faults", State: OK}
	_, err := probes.XidFormat(f.Root, at)
	if err == nil {
		l.Value, l.Note = "tracepoint "+at.String(), "ingero shows XIDs as the driver reports them"
		if addUnread(&l, f) != nil {
			l.State = Lack
			l.Note, l.Do = "the kernel log is not readable, so the process and the MIG instance of an XID are unknown", readLog
		}
		return []wire.CheckLine{l}
	}
	l.Note = "this driver has no tracepoint " + at.String() + ", which requires driver 575"
	if !errors.Is(err, fs.ErrNotExist) {
		l.State, l.Note = Lack, fmt.Sprintf("cannot use the tracepoint %s: %s", at, err)
	}
	l.Value = "kernel log"
	if addUnread(&l, f) != nil {
		l.State, l.Value = Lack, "kernel log not readable"
		l.Note, l.Do = "XIDs will be missed: "+l.Note, readLog
	}
	return []wire.CheckLine{l}
}

// addUnread adds to the line how many kernel log lines look like faults but cannot be parsed. It
// returns the error of opening or reading the log.
func addUnread(l *wire.CheckLine, f *facts) error {
	log, err := xid.OpenLog(f.Root+xid.LogPath, true, 0)
	if err != nil {
		return err
	}
	_, err = log.Next(nil, false)
	if n := log.Unread(); n > 0 {
		l.State = Lack
		l.Note += fmt.Sprintf("; cannot parse %s of the kernel log", count(int(n), "fault line"))
		l.Do = "report these lines: sudo dmesg | grep -E 'NVRM: Xid|SXid'"
	}
	if err = errors.Join(err, log.Close()); errors.Is(err, os.ErrClosed) {
		return nil // a plain file ends, unlike the kernel log
	}
	return err
}
