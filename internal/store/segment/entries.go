package segment

import (
	"encoding/json"
	"fmt"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Session describes a recording.
type Session struct {
	ID      string    `json:"id"` // unique; Open sets it, so it is "" there
	Node    string    `json:"node"`
	Started time.Time `json:"started"`
	// MonoOffset is Unix time minus CLOCK_MONOTONIC, in nanoseconds.
	MonoOffset int64  `json:"mono_offset_ns"`
	Version    string `json:"version"` // ingero's version
	Kernel     string `json:"kernel"`  // kernel release
	Mode       string `json:"mode"`    // "trace", "run", "demo"
	Target     string `json:"target"`  // description of the target
	PID        int    `json:"pid"`     // the agent's
}

// Process is a process in a log. Times are Unix nanoseconds, 0 for none.
type Process struct {
	PID      uint32 `json:"pid"`
	PPID     uint32 `json:"ppid"`
	NSPID    uint32 `json:"nspid"`
	UID      uint32 `json:"uid"`
	Comm     string `json:"comm"`
	Exe      string `json:"exe"`
	Cgroup   string `json:"cgroup"`
	Started  int64  `json:"started_ns"`
	Ended    int64  `json:"ended_ns"`
	Mapped   int64  `json:"mapped_ns"`
	Attached int64  `json:"attached_ns"`
	Counted  bool   `json:"counted,omitempty"`
	tick.Where
}

// ProcessOf returns a process as a log has it.
func ProcessOf(p *tick.Process) Process {
	return Process{p.PID, p.PPID, p.NSPID, p.UID, p.Comm, p.Exe, p.Cgroup,
		UnixNano(p.Started), UnixNano(p.Ended), UnixNano(p.Mapped), UnixNano(p.Attached), p.Counted, p.Where}
}

func (j *Process) process() tick.Process {
	return tick.Process{PID: j.PID, PPID: j.PPID, NSPID: j.NSPID, UID: j.UID, Comm: j.Comm, Exe: j.Exe, Cgroup: j.Cgroup,
		Started: FromUnixNano(j.Started), Ended: FromUnixNano(j.Ended), Mapped: FromUnixNano(j.Mapped), Attached: FromUnixNano(j.Attached), Counted: j.Counted, Where: j.Where}
}

// UnixNano returns t in Unix nanoseconds, 0 for the zero time.
func UnixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// FromUnixNano is the inverse of UnixNano.
func FromUnixNano(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Library is a library in a log.
type Library struct {
	Path    string `json:"path"`
	Lib     string `json:"library"`
	Number  uint8  `json:"number"`
	BuildID string `json:"build_id"`
	Probes  int    `json:"probes"`
}

// LibraryOf returns a library as a log has it.
func LibraryOf(l *tick.Library) Library {
	return Library{l.Path, l.Lib.String(), uint8(l.Lib), l.BuildID, l.Probes}
}

func (j *Library) library() tick.Library {
	return tick.Library{Path: j.Path, Lib: events.Library(j.Number), BuildID: j.BuildID, Probes: j.Probes}
}

type reportJSON struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Why    string `json:"why"`
}

// End describes how a recording ended. A log without one was cut short.
type End struct {
	Time    time.Time `json:"time"`
	State   string    `json:"state"` // "ended", "full", "failed"
	Problem string    `json:"problem,omitempty"`
}

func unmarshal[T any](body []byte, what string) (T, error) {
	var v T
	if len(body) > maxJSON {
		return v, fmt.Errorf("%w: invalid %s (%d bytes)", log.ErrCorrupt, what, len(body))
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: invalid %s: %w", log.ErrCorrupt, what, err)
	}
	return v, nil
}

// fields returns pointers to the counts in the order of a log. The first version of a tick has the
// first 12.
func fields(c *tick.Counts) [13]*uint64 {
	return [...]*uint64{&c.Calls, &c.Done, &c.Errors, &c.Nested, &c.Unmeasured, &c.Abandoned,
		&c.Total, &c.OnCPU, &c.Runnable, &c.Inner, &c.Partial, &c.PartialNS, &c.Throttled}
}

// appendTick appends a tick without its operations and threads.
func appendTick(b []byte, t *tick.Tick) []byte {
	b = appendUvarint(appendUvarint(b, zig(UnixNano(t.Time))), zig(UnixNano(t.Started)))
	b = appendUvarint(appendUvarint(b, t.Seq), zig(int64(t.Window)))
	final := uint64(0)
	if t.Final {
		final = 1
	}
	b = appendUvarint(appendUvarint(b, t.Records), final)
	b = appendUvarint(appendUvarint(b, zig(int64(t.Self.CPU))), zig(t.Self.RSS))
	h := &t.Host
	for _, f := range [...]float64{h.CPU, h.Load[0], h.Load[1], h.Load[2]} {
		b = appendFloat(b, f)
	}
	for _, v := range [...]int64{int64(h.CPUs), h.MemTotal, h.MemAvail, h.SwapTotal, h.SwapUsed} {
		b = appendUvarint(b, zig(v))
	}
	b = appendUvarint(b, uint64(len(t.Drops)))
	for _, d := range t.Drops {
		b = appendUvarint(appendString(b, d.Reason), d.Count)
	}
	return b
}

// appendOp appends an operation's counts and the buckets of its histogram that differ from seen,
// the last written state; nil means none.
func appendOp(b []byte, o *tick.Op, seen *stats.Hist) []byte {
	b = appendUvarint(appendUvarint(b, uint64(o.Op)), uint64(o.PID))
	thinned := uint64(0)
	if o.Thinned {
		thinned = 1
	}
	b = appendUvarint(b, thinned)
	for _, v := range fields(&o.Sum) {
		b = appendUvarint(b, *v)
	}
	return AppendHist(b, o.Hist, seen)
}

// AppendHist appends the buckets of a histogram that differ from seen; nil means none.
func AppendHist(b []byte, h, seen *stats.Hist) []byte {
	if h == nil {
		return appendUvarint(b, 0)
	}
	var zero stats.Hist
	if seen == nil {
		seen = &zero
	}
	n := 0
	for i, v := range h {
		if v != seen[i] {
			n++
		}
	}
	b = appendUvarint(b, uint64(n))
	prev := 0
	for i, v := range h {
		if v != seen[i] {
			b = appendUvarint(appendUvarint(b, uint64(i-prev)), v)
			prev = i
		}
	}
	return b
}

// readTick reads the output of appendTick and of one appendOp per operation. Histograms have only
// the written buckets. state returns the operation to fill, nil if there is no room. The caller
// checks r.bad.
func readTick(r *reader, version uint8, state func(pid uint32, op events.Op) *tick.Op) *tick.Tick {
	t := &tick.Tick{Time: FromUnixNano(r.int()), Started: FromUnixNano(r.int()), Seq: r.uint(), Window: time.Duration(r.int())}
	t.Records, t.Final = r.uint(), r.uint() == 1
	t.Self = tick.Self{CPU: time.Duration(r.int()), RSS: r.int()}
	h := &t.Host
	for _, f := range [...]*float64{&h.CPU, &h.Load[0], &h.Load[1], &h.Load[2]} {
		*f = r.float()
	}
	h.CPUs = int(r.int())
	for _, v := range [...]*int64{&h.MemTotal, &h.MemAvail, &h.SwapTotal, &h.SwapUsed} {
		*v = r.int()
	}
	drops := r.count()
	if drops > maxDrops {
		r.fail()
		return t
	}
	for range drops {
		t.Drops = append(t.Drops, tick.Drop{Reason: r.string(), Count: r.uint()})
	}
	for range r.count() {
		op, pid := r.small(), r.small()
		if r.bad || op > 1<<16-1 {
			r.fail()
			break
		}
		o := state(pid, events.Op(op))
		if o == nil {
			r.fail()
			break
		}
		readOp(r, o, version)
	}
	return t
}

func readOp(r *reader, o *tick.Op, version uint8) {
	o.Thinned = r.uint() == 1
	all := fields(&o.Sum)
	counts := all[:]
	if version == 1 {
		counts = all[:12]
	}
	for _, v := range counts {
		*v = r.uint()
	}
	readHist(r, o.Hist)
}

// readHist sets the buckets that AppendHist wrote.
func readHist(r *reader, h *stats.Hist) {
	at := uint64(0)
	for range r.count() {
		step, v := r.uint(), r.uint()
		at += step
		if r.bad || step >= stats.HistBuckets || at >= stats.HistBuckets {
			r.fail()
			return
		}
		h[at] = v
	}
}

// UnmarshalHist decodes a histogram of the database.
func UnmarshalHist(b []byte) (*stats.Hist, error) {
	r, h := reader{b: b}, &stats.Hist{}
	readHist(&r, h)
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("%w: invalid histogram", log.ErrCorrupt)
	}
	return h, nil
}
