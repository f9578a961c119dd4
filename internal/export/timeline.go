package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// TimelineResult describes a timeline.
type TimelineResult struct {
	Result
	Chains int
}

// Perfetto writes the matching calls, with their waits, gaps, memory, GPUs and causes of lost time,
// as a Perfetto trace: Protocol Buffers messages, for ui.perfetto.dev.
func Perfetto(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter, p Progress) (*TimelineResult, error) {
	return timelineTo(ctx, newPerfetto(w), r, f, p)
}

// Chrome writes the same as JSON of the Trace Event Format, for chrome://tracing and others; it is
// the larger one. Times are microseconds since the start of the first recording.
func Chrome(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter, p Progress) (*TimelineResult, error) {
	return timelineTo(ctx, newChrome(w), r, f, p)
}

// timelineWriter writes a timeline in one format. Tracks precede their events. Events of one track
// that begin and end come nested: a begin, the inner ones, and the end.
type timelineWriter interface {
	begin(at int64) error // first time, Unix ns
	track(*track) error
	event(*mark) error
	close() error
}

// trackKind is the content of a track.
type trackKind uint8

const (
	trackNode trackKind = iota
	trackProcess
	trackThread
	trackEvents  // instants
	trackCounter // levels
)

// track is a line of the timeline.
type track struct {
	id     uint64 // from 1
	parent *track
	kind   trackKind
	name   string
	// pid and tid identify processes and threads in the whole timeline: those of the machine,
	// unless another machine's track already has them.
	pid, tid int32
	rank     int    // position among processes; below 0: none
	cmdline  string // of a process
	unit     unit   // of a counter
}

// unit is a counter's unit.
type unit uint8

const (
	unitNone unit = iota
	unitBytes
	unitPercent
	unitHertz
	unitCelsius
	unitWatt
)

// markKind is an event's kind.
type markKind uint8

const (
	markBegin markKind = iota
	markEnd
	markInstant
	markCount
)

// mark is one event. It is valid until the writer returns.
type mark struct {
	on         *track
	kind       markKind
	at, until  int64 // Unix ns; until is for a begin
	name       string
	categories [2]string // the second may be empty
	severity   tick.Severity
	value      float64 // markCount
	args       []arg
	out, in    []uint64 // flows that start at or pass through it, and flows that end at it
}

// arg is a number or a text of an event.
type arg struct {
	name   string
	text   string
	number int64
	kind   argKind
}

type argKind uint8

const (
	argNumber  argKind = iota
	argNatural         // 64 bits, unsigned
	argText
	argHandle // an address or a similar number
)

// timeline builds a timeline, session after session.
type timeline struct {
	w        timelineWriter
	f        query.Filter
	res      *TimelineResult
	progress Progress
	nodes    map[string]*track
	tracks   map[trackKey]*track
	spaces   map[string]int32 // offsets of pids, by machine
	last     uint64           // last track number
	flow     uint64           // last flow number
	failed   error

	// The current session's state.
	s        *session
	where    map[uint32]*tick.Process
	threads  map[uint32]*thread
	streams  map[uint32]*flows // by process
	counters map[counterKey]*track
}

type trackKey struct {
	node     string
	pid, tid uint32
	kind     trackKind
	began    int64 // start of the process: a later one with the same pid is another track
}

type counterKey struct {
	of   *track
	name string
}

func timelineTo(ctx context.Context, w timelineWriter, r *query.Reader, f query.Filter, p Progress) (*TimelineResult, error) {
	t := &timeline{w: w, f: f, res: &TimelineResult{}, progress: p, nodes: map[string]*track{}, tracks: map[trackKey]*track{}, spaces: map[string]int32{}}
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, err
	}
	var first int64
	for i := range sessions {
		if at := sessions[i].Started.UnixNano(); first == 0 || at < first {
			first = at
		}
	}
	if err := w.begin(first); err != nil {
		return nil, err
	}
	for i := range sessions {
		if err := t.session(ctx, r, &sessions[i]); err != nil {
			return nil, fmt.Errorf("session %s: %w", sessions[i].ID, err)
		}
	}
	return t.res, w.close()
}

// session writes one session's content.
func (t *timeline) session(ctx context.Context, r *query.Reader, session *query.Session) (err error) {
	if t.s, err = newSession(ctx, r, session); err != nil {
		return err
	}
	t.where, t.threads, t.streams, t.counters = map[uint32]*tick.Process{}, map[uint32]*thread{}, map[uint32]*flows{}, map[counterKey]*track{}
	all, err := r.Processes(ctx, session.ID)
	if err != nil {
		return err
	}
	for i := range all {
		t.where[all[i].PID] = &all[i]
	}
	f := t.f
	f.Session = session.ID
	before := t.res.Calls
	cover, err := r.Slices(ctx, f, 0, 0, func(x *query.Slice) {
		if t.failed == nil {
			t.failed = errors.Join(ctx.Err(), t.slice(x))
		}
	})
	if errors.Is(err, query.ErrNoCalls) { // the rest can still be shown
		cover.Missing, err = append(cover.Missing, session.ID), nil
	}
	if err = errors.Join(err, t.failed); err == nil {
		err = t.rest()
	}
	if err != nil {
		return err
	}
	if t.res.Calls > before {
		t.res.Sessions++
	}
	t.res.Coverage.Add(cover)
	return errors.Join(t.levels(ctx, r, f), t.chains(ctx, r, f), t.faults(ctx, r, f))
}

// wants reports whether a process's call or wait in an operation is selected.
func (t *timeline) wants(pid uint32, op events.Op) bool {
	return selects(t.f.PIDs, pid) && selects(t.f.Ops, op)
}

// selects reports whether x is in a list; an empty list has everything.
func selects[T comparable](list []T, x T) bool {
	for i := range list {
		if list[i] == x {
			return true
		}
	}
	return len(list) == 0
}

// node returns the track of the session's machine.
func (t *timeline) node() (*track, error) {
	if x := t.nodes[t.s.Node]; x != nil {
		return x, nil
	}
	x := &track{kind: trackNode, name: t.s.Node}
	t.nodes[t.s.Node] = x
	t.spaces[t.s.Node] = int32(len(t.spaces)%256) << maxPIDBits
	x.pid = nodePID + int32(len(t.spaces))
	return x, t.add(x)
}

// Linux pids have at most 22 bits. Those of nodes are above all possible pids of the first 256
// nodes' processes.
const (
	maxPIDBits = 22
	nodePID    = 1 << 30
)

func (t *timeline) add(x *track) error {
	t.last++
	x.id = t.last
	return t.w.track(x)
}

// process returns the track of a process of the session.
func (t *timeline) process(pid uint32) (*track, error) {
	k := trackKey{node: t.s.Node, pid: pid, kind: trackProcess}
	p := t.where[pid]
	if p != nil && !p.Started.IsZero() {
		k.began = p.Started.UnixNano()
	}
	if x := t.tracks[k]; x != nil {
		return x, nil
	}
	node, err := t.node()
	if err != nil {
		return nil, err
	}
	x := &track{kind: trackProcess, parent: node, pid: int32(pid) + t.spaces[t.s.Node], rank: -1}
	var words []string
	if p != nil {
		x.cmdline = p.Cmdline
		if rank, ok := p.Rank.Value(); ok {
			x.rank = int(rank)
			words = append(words, "rank "+strconv.Itoa(x.rank))
		}
		words = append(words, p.Comm)
	}
	x.name = strings.Join(append(words, strconv.FormatUint(uint64(pid), 10), "on "+t.s.Node), " ")
	t.tracks[k] = x
	return x, t.add(x)
}

// under returns the track of a kind below another, and creates it if needed.
func (t *timeline) under(parent *track, k trackKey, name string, tid uint32) (*track, error) {
	if x := t.tracks[k]; x != nil {
		return x, nil
	}
	x := &track{kind: k.kind, parent: parent, name: name, pid: parent.pid}
	if k.kind == trackThread {
		x.tid = int32(tid) + t.spaces[t.s.Node]
	}
	t.tracks[k] = x
	return x, t.add(x)
}

// count writes a counter's level.
func (t *timeline) count(parent *track, name string, u unit, at int64, value float64) error {
	k := counterKey{parent, name}
	x := t.counters[k]
	if x == nil {
		x = &track{kind: trackCounter, parent: parent, name: name, pid: parent.pid, unit: u}
		t.counters[k] = x
		if err := t.add(x); err != nil {
			return err
		}
	}
	return t.w.event(&mark{on: x, kind: markCount, at: at, name: name, value: value})
}
