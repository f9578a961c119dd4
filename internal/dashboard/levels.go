package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/internal/xid"
)

// mostHeld bounds the separate processes: those that held most.
const mostHeld = 32

// moments returns the starts of the buckets.
func (s *scale) moments() []wire.Millis {
	out := make([]wire.Millis, s.n)
	for i := range out {
		out[i] = wire.Millis(s.start + int64(i)*s.width)
	}
	return out
}

func unknown(n int) []wire.Known {
	out := make([]wire.Known, n)
	for i := range out {
		out[i] = -1
	}
	return out
}

func (a *request) memory() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	s := a.divided(time.Second)
	out := wire.MemoryLines{Scope: a.about(), At: s.moments(), Procs: []*wire.MemoryLine{}, Notes: []string{}}
	for i := range sessions {
		held, err := a.heldIn(&sessions[i], &s)
		if err != nil {
			return nil, err
		}
		out.Procs = append(out.Procs, held...)
	}
	slices.SortStableFunc(out.Procs, func(x, y *wire.MemoryLine) int { return cmp.Or(cmp.Compare(y.Peak, x.Peak), cmp.Compare(x.PID, y.PID)) })
	out.More = max(len(out.Procs)-mostHeld, 0)
	out.Procs = out.Procs[:len(out.Procs)-out.More]
	return out, nil
}

// heldIn returns what one recording's processes held.
func (a *request) heldIn(session *query.Session, s *scale) (out []*wire.MemoryLine, err error) {
	f, comms, err := a.filter(session)
	if err != nil {
		return nil, err
	}
	ledgers, err := a.db.Memory(a.ctx, f)
	if err != nil {
		return nil, err
	}
	all, err := a.db.Processes(a.ctx, session.ID)
	if err != nil {
		return nil, err
	}
	ended := map[uint32]int64{}
	for i := range all {
		if p := &all[i]; !p.Ended.IsZero() {
			ended[p.PID] = p.Ended.UnixNano()
		}
	}
	last := max(session.Updated.UnixNano(), session.Ended.UnixNano())
	f.From = time.Time{} // a level stays until the next one
	at := map[uint32]*memoryLine{}
	err = a.db.MemoryLevels(a.ctx, f, func(x *query.MemoryLevel) error {
		l := at[x.PID]
		if l == nil {
			m := ledgers[x.PID]
			l = &memoryLine{MemoryLine: &wire.MemoryLine{PID: x.PID, Comm: explain.Clean(comms[x.PID]), Node: session.Node, Session: session.ID, GPU: unknown(s.n), Host: unknown(s.n),
				Exact: m.Used && m.Inexact == 0}}
			at[x.PID], out = l, append(out, l.MemoryLine)
		}
		l.until(s, x.Time)
		l.gpu, l.host, l.any = wire.Known(x.GPU), wire.Known(x.Host), true
		l.record(s, s.bucket(x.Time))
		return nil
	})
	for pid, l := range at {
		end := last
		if e, ok := ended[pid]; ok {
			end = min(end, e)
		}
		l.until(s, min(end, s.start+int64(s.n)*s.width))
	}
	return slices.DeleteFunc(out, func(x *wire.MemoryLine) bool { return slices.Max(x.GPU) < 0 }), err
}

// memoryLine is a line under construction.
type memoryLine struct {
	*wire.MemoryLine
	next      int // the first bucket that has not begun
	gpu, host wire.Known
	any       bool
}

// until extends the last level up to a time.
func (l *memoryLine) until(s *scale, ns int64) {
	for ; l.next < s.n && s.start+int64(l.next)*s.width < ns; l.next++ {
		if l.any {
			l.record(s, l.next)
		}
	}
}

// record records the level in a bucket, which may be outside.
func (l *memoryLine) record(s *scale, i int) {
	if i < 0 || i >= s.n {
		return
	}
	l.GPU[i], l.Host[i] = max(l.GPU[i], l.gpu), max(l.Host[i], l.host)
	l.Peak = max(l.Peak, int64(l.gpu))
}

// gpuLine is a line under construction.
type gpuLine struct {
	*wire.GPULine
	bucket int // of the last state
}

// record records a state: the last one in a bucket, except that a missing answer stays.
func (g *gpuLine) record(x *tick.GPU, bucket int) {
	if n := len(g.At) - 1; n >= 0 && g.bucket == bucket && !g.Lost[n] {
		g.At, g.Busy, g.MemUsed, g.ClockSM, g.ClockMem = g.At[:n], g.Busy[:n], g.MemUsed[:n], g.ClockSM[:n], g.ClockMem[:n]
		g.Temperature, g.Power, g.PowerLimit, g.Throttle, g.ECC, g.Lost = g.Temperature[:n], g.Power[:n], g.PowerLimit[:n], g.Throttle[:n], g.ECC[:n], g.Lost[:n]
	}
	g.bucket, g.MemTotal = bucket, x.MemTotal
	g.At, g.Busy, g.MemUsed = append(g.At, wire.Millis(x.Time.UnixNano())), append(g.Busy, x.Busy), append(g.MemUsed, x.MemUsed)
	g.ClockSM, g.ClockMem = append(g.ClockSM, x.ClockSM), append(g.ClockMem, x.ClockMem)
	g.Temperature, g.Power, g.PowerLimit = append(g.Temperature, x.Temperature), append(g.Power, x.Power), append(g.PowerLimit, x.PowerLimit)
	g.Throttle, g.ECC, g.Lost = append(g.Throttle, strings.Join(x.Throttle, ", ")), append(g.ECC, x.ECCLost), append(g.Lost, x.Lost)
}

// mostXids bounds the faults of an answer: the last ones.
const mostXids = 500

func (a *request) gpus() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	s := a.divided(time.Second)
	out := wire.GPULines{Scope: a.about(), GPUs: []*wire.GPULine{}, Xids: []wire.RecordedXid{}, Notes: []string{}}
	type key struct{ node, bus string }
	at := map[key]*gpuLine{}
	for i := range sessions {
		session := &sessions[i]
		f, _, err := a.filter(session)
		if err != nil {
			return nil, err
		}
		if err := a.db.GPUStates(a.ctx, f, func(x *tick.GPU) error {
			g := at[key{session.Node, x.Bus}]
			if g == nil {
				g = &gpuLine{&wire.GPULine{Bus: explain.Clean(x.Bus), UUID: explain.Clean(x.UUID), Name: explain.Clean(x.Name), Node: session.Node}, -1}
				at[key{session.Node, x.Bus}], out.GPUs = g, append(out.GPUs, g.GPULine)
			}
			g.record(x, s.bucket(x.Time.UnixNano()))
			return nil
		}); err != nil {
			return nil, err
		}
		faults, err := a.db.Xids(a.ctx, f)
		if err != nil {
			return nil, err
		}
		for j := range faults {
			out.Xids = append(out.Xids, xidOf(&faults[j]))
		}
	}
	slices.SortStableFunc(out.Xids, func(x, y wire.RecordedXid) int { return cmp.Compare(x.At, y.At) })
	out.More = max(len(out.Xids)-mostXids, 0)
	out.Xids = out.Xids[out.More:]
	return out, nil
}

func xidOf(x *tick.Xid) wire.RecordedXid {
	code := xid.LookupFault(x)
	return wire.RecordedXid{At: wire.Millis(x.Time), Bus: explain.Clean(x.Device()), Code: x.Code, Switch: x.Switch, Name: code.Name, Severity: code.Severity, Burst: x.Burst, Root: x.Root,
		PID: x.PID, Comm: explain.Clean(x.Comm), Via: x.Via.String(), Msg: explain.Clean(x.Msg)}
}
