package store

import (
	"fmt"
	"math"
	"strings"
	"time"

	"ingero/internal/tick"
)

var (
	sqlMemory = `REPLACE INTO memory VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlLedger = `REPLACE INTO ledgers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDevice = `REPLACE INTO devices VALUES (?, ?, ?, ?)`
	sqlHeld   = `REPLACE INTO held VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlStream = `REPLACE INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlGraph  = `REPLACE INTO graphs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlComm   = `REPLACE INTO comms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlCopy   = `REPLACE INTO copies VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlError  = `REPLACE INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// stateKey identifies a state's row: its table and its key in the file.
type stateKey struct {
	sql  *string
	pid  uint32
	a, b uint64
}

// memoryNow is the file's last row of a process's memory.
type memoryNow struct {
	gpu, host, allocs, frees uint64
	exact                    bool
}

// states writes the changed states that calls imply.
func (v *saving) states(t *tick.Tick) error {
	for i := range t.States {
		if err := v.state(&t.States[i], t.Time); err != nil {
			return err
		}
	}
	return nil
}

func (v *saving) state(s *tick.State, at time.Time) error {
	if err := v.ledger(s, at); err != nil {
		return err
	}
	for _, h := range s.Held {
		if err := upsert(v, stateKey{&sqlHeld, s.PID, uint64(h.Kind), uint64(h.Device)}, h, func() []any {
			return []any{s.PID, h.Kind.String(), int(h.Device) - 1, int64(h.Bytes), int64(h.Peak), int64(h.Count), int64(h.Unsized)}
		}); err != nil {
			return err
		}
	}
	for _, d := range s.Devices {
		if err := upsert(v, stateKey{sql: &sqlDevice, pid: s.PID, a: uint64(d.Device)}, d, func() []any {
			return []any{s.PID, int(d.Device) - 1, d.UUID}
		}); err != nil {
			return err
		}
	}
	for _, x := range s.Streams.First {
		if err := upsert(v, stateKey{sql: &sqlStream, pid: s.PID, a: x.Number}, x, func() []any {
			return []any{int64(x.Number), s.PID, int64(x.Handle), device(x.Device), int64(x.Launches), int64(x.Outstanding),
				int64(x.Copies), int64(x.Bytes), int64(x.Captures), null(x.Last)}
		}); err != nil {
			return err
		}
	}
	for _, x := range s.Graphs.First {
		if err := upsert(v, stateKey{sql: &sqlGraph, pid: s.PID, a: x.Number}, x, func() []any { return graphRow(s.PID, &x) }); err != nil {
			return err
		}
	}
	for _, x := range s.Comms.First {
		if err := upsert(v, stateKey{sql: &sqlComm, pid: s.PID, a: x.Number}, x, func() []any { return commRow(s.PID, &x) }); err != nil {
			return err
		}
	}
	for _, x := range s.Copies {
		if err := upsert(v, stateKey{&sqlCopy, s.PID, uint64(x.Dir), uint64(x.Host)}, x, func() []any {
			return []any{s.PID, x.Dir.String(), x.Host.String(), int64(x.Count), int64(x.Bytes), x.NS, x.Estimated}
		}); err != nil {
			return err
		}
	}
	for _, x := range s.Errors.First {
		if err := upsert(v, stateKey{&sqlError, s.PID, uint64(x.Op), uint64(uint32(x.Code))}, x, func() []any {
			return []any{s.PID, uint16(x.Op), x.Op.String(), x.Code, x.Name(), int64(x.Count), x.First, x.Last}
		}); err != nil {
			return err
		}
	}
	return nil
}

// upsert writes a new or changed row; its first column is the session's.
func upsert[T comparable](v *saving, k stateKey, now T, row func() []any) error {
	if before, ok := v.stated[k].(T); ok && before == now {
		return nil
	}
	if err := v.exec(k.sql, append([]any{v.id}, row()...)...); err != nil {
		return err
	}
	v.done = append(v.done, func() { v.stated[k] = now })
	return nil
}

// ledger writes a process's memory, if it has any.
func (v *saving) ledger(s *tick.State, at time.Time) error {
	m := &s.Memory
	if !m.Used {
		return nil
	}
	now := memoryNow{m.GPU.Bytes, m.Host.Bytes, m.Allocs, m.Frees, m.Inexact == 0}
	err := upsert(v, stateKey{sql: &sqlMemory, pid: s.PID}, now, func() []any {
		return []any{at.UnixNano(), s.PID, int64(now.gpu), int64(now.host), int64(now.allocs), int64(now.frees), now.exact}
	})
	if err != nil {
		return err
	}
	return upsert(v, stateKey{sql: &sqlLedger, pid: s.PID}, *m, func() []any {
		row := []any{s.PID, strings.Join(m.Inexact.Reasons(), " "), int64(m.GPU.Bytes), int64(m.GPU.Peak), int64(m.GPU.Count),
			int64(m.Host.Bytes), int64(m.Host.Peak), int64(m.Host.Count), int64(m.Allocs), int64(m.Frees), int64(m.Released),
			int64(m.DoubleFrees), int64(m.UnknownFrees), int64(m.Untracked), int64(m.OOMs)}
		if o := &m.LastOOM; o.Time != 0 {
			row = append(row, o.Time, o.Op.String(), null(int64(o.Size)), device(o.Device), int64(o.Live), int64(o.Peak), o.Fragmented, share(o.Holes))
		} else {
			row = append(row, make([]any, 8)...)
		}
		if g := &m.Growth; g.Over > 0 {
			return append(row, g.PerMinute, g.Low, g.High, g.Over, g.Leak)
		}
		return append(row, make([]any, 5)...)
	})
}

func graphRow(pid uint32, x *tick.Graph) []any {
	row := []any{int64(x.Number), pid, null(int64(x.Exec)), null(int64(x.Graph)), device(x.Device)}
	if x.Captured != 0 {
		row = append(row, x.Captured, x.CaptureNS, x.CaptureTID, int64(x.CaptureStream), x.CaptureMode, int64(x.CaptureLaunches), x.Cold, x.CaptureFailed)
	} else {
		row = append(row, make([]any, 8)...)
	}
	return append(row, null(x.Instantiated), null(x.InstantiateNS), int64(x.InstantiateFails), int64(x.Launches), null(x.LastLaunch),
		int64(x.Updates), int64(x.UpdateFails), int64(x.Uploads), null(x.Destroyed))
}

func commRow(pid uint32, x *tick.Comm) []any {
	row := []any{int64(x.Number), pid, int64(x.Handle), nil, nil, null(int64(x.Ranks)), device(x.Device), x.State.String(),
		null(x.Began), null(x.InitNS), int64(x.Seq), int64(x.Failed)}
	if x.ID != 0 {
		row[3] = fmt.Sprintf("%016x", x.ID)
	}
	if x.Rank >= 0 {
		row[4] = x.Rank
	}
	if o := &x.Last; o.Op != 0 {
		row = append(row, o.Op.String(), o.Time, int64(o.Elements), o.Type, null(int64(o.Bytes)))
	} else {
		row = append(row, make([]any, 5)...)
	}
	return append(row, null(x.Ended))
}

// device returns a device's ordinal, NULL if unknown.
func device(d int16) any {
	if d == 0 {
		return nil
	}
	return int(d) - 1
}

// share returns a share from 0 to 1, NULL if unknown.
func share(f float64) any {
	if f < 0 || math.IsNaN(f) {
		return nil
	}
	return f
}
