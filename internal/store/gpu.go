package store

import (
	"encoding/json"
	"fmt"
	"ingero/internal/tick"
	"ingero/internal/xid"
	"ingero/pkg/events"
	"strings"
)

// maxStates bounds the states that are queued while the disk is full or another process locks the
// database. Further states are dropped: later ones follow.
const maxStates = 1024

var (
	sqlXid = `INSERT OR IGNORE INTO xids VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlGPU = `INSERT INTO gpus VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET idx = ifnull(excluded.idx, idx), mem_total = ifnull(excluded.mem_total, mem_total),
		uuid = ifnull(nullif(excluded.uuid, ''), uuid), name = ifnull(nullif(excluded.name, ''), name)`
	sqlGPUState = `REPLACE INTO gpu_states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// noteGPU queues a tick's faults and new GPU states.
func (v *saver) noteGPU(t *tick.Tick) {
	for i := range t.Xids {
		v.xids = queue(v, v.xids, t.Xids[i])
	}
	for i := range t.GPUs {
		if g := &t.GPUs[i]; v.gpus.IsNew(g) && len(v.gpuStates) < maxStates {
			v.gpuStates = append(v.gpuStates, *g)
		}
	}
}

// gpu writes what noteGPU has queued.
func (v *saving) gpu() error {
	for i := range v.xids {
		x := &v.xids[i]
		last, err := lastText(x.Last)
		if err != nil {
			return err
		}
		code := xid.LookupFault(x)
		if err := v.exec(&sqlXid, v.id, int64(x.Burst), x.At, x.Time, x.Code, x.Switch, code.Name, code.Severity, x.Bus, x.Msg, x.Via.String(), x.Injected,
			null(int64(x.SaidPID)), x.SaidName, null(int64(x.PID)), x.Comm, x.Root, int64(x.After), last,
			numberOrNull(x.GPUInstance), numberOrNull(x.ComputeInstance), null(int64(x.CausedBy)), x.NoCode); err != nil {
			return err
		}
	}
	for i := range v.gpuStates {
		g := &v.gpuStates[i]
		if err := v.exec(&sqlGPU, v.id, g.Bus, indexOf(g), g.UUID, g.Name, g.MemTotal); err != nil {
			return err
		}
		if err := v.exec(&sqlGPUState, v.id, g.Time.UnixNano(), g.Bus, g.MIG, g.Lost, strings.Join(g.Throttle, ", "), g.MemUsed, g.Busy, g.MemBusy,
			g.ClockSM, g.ClockMem, g.ClockSMMax, g.Temperature, g.Power, g.PowerLimit, g.ECCCorrected, g.ECCLost); err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { v.xids, v.gpuStates = v.xids[:0], v.gpuStates[:0] })
	return nil
}

// numberOrNull returns NULL for an unknown number.
func numberOrNull(n tick.Number) any {
	if v, known := n.Value(); known {
		return int64(v)
	}
	return nil
}

// lastCall is a call before a fault, in a table.
type lastCall struct {
	Op string `json:"op"`
	tick.XidCall
}

// lastText encodes the calls before a fault, with their operations' names.
func lastText(calls []tick.XidCall) (string, error) {
	out := []lastCall{}
	for _, c := range calls {
		out = append(out, lastCall{c.Op.String(), c})
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// LastCalls decodes the column last of the table xids.
func LastCalls(text string) ([]tick.XidCall, error) {
	var list []lastCall
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read the last calls before a fault: %w", err)
	}
	var out []tick.XidCall
	for _, c := range list {
		c.XidCall.Op, _ = events.OpByName(c.Op) // 0: from a newer ingero
		out = append(out, c.XidCall)
	}
	return out, nil
}

// indexOf returns NULL for an unknown GPU number.
func indexOf(g *tick.GPU) any {
	if g.Index < 0 {
		return nil
	}
	return g.Index
}
