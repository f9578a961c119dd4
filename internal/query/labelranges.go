package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Range is a time range: [From, To), Unix ns.
type Range struct{ From, To int64 }

// Ranges are the time ranges in which processes of one session had all labels of a filter: the
// process itself, or one of its threads. They are in order and do not touch. Nil: there are no
// labels, and nothing is restricted.
type Ranges map[uint32][]Range

// Around returns the range of a process in which [from, to] lies; for PID 0, of any process. ok is
// false if there is none.
func (r Ranges) Around(pid uint32, from, to int64) (x Range, ok bool) {
	if pid == 0 {
		for one := range r {
			if one == 0 { // a damaged database
				continue
			}
			if x, ok = r.Around(one, from, to); ok {
				return x, true
			}
		}
		return x, false
	}
	list := r[pid]
	i, _ := slices.BinarySearchFunc(list, from, func(x Range, at int64) int { return cmp.Or(cmp.Compare(x.To, at), -1) })
	if i == len(list) || list[i].From > from || to > list[i].To {
		return x, false
	}
	return list[i], true
}

// Contains reports whether [from, to] lies in one range of a process, or of any process for PID 0.
func (r Ranges) Contains(pid uint32, from, to int64) bool {
	_, ok := r.Around(pid, from, to)
	return r == nil || ok
}

// Overlaps reports whether a part of [from, to] lies in a range of a process.
func (r Ranges) Overlaps(pid uint32, from, to int64) bool {
	return slices.ContainsFunc(r[pid], func(x Range) bool { return x.From <= to && from < x.To })
}

// Hull returns the time from the first range to the last.
func (r Ranges) Hull() (from, to time.Time) {
	for _, list := range r {
		if first := unixTime(list[0].From); from.IsZero() || first.Before(from) {
			from = first
		}
		to = later(to, unixTime(list[len(list)-1].To))
	}
	return from, to
}

// labelled returns the filter's session, and the [Ranges] in it.
func (r *Reader) labelled(ctx context.Context, f Filter) (Session, Ranges, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return s, nil, err
	}
	within, err := r.Ranges(ctx, &s, f)
	return s, within, err
}

// Ranges returns when the filter's processes had its labels, in its window.
func (r *Reader) Ranges(ctx context.Context, s *Session, f Filter) (Ranges, error) {
	if len(f.Labels) == 0 {
		return nil, nil
	}
	with, err := r.Labelled(ctx, s, f)
	if err != nil {
		return nil, err
	}
	procs, err := r.processes(ctx, s.id)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	all := Range{max(from, s.Started.UnixNano()), min(to, max(s.Updated.UnixNano(), s.Ended.UnixNano())+1)}
	lived, threads := map[uint32]Range{}, map[uint32][]uint32{}
	for i := range with.values {
		for who := range with.values[i].spans { // a process without CUDA, too
			lived[who.pid], threads[who.pid] = all, append(threads[who.pid], who.tid)
		}
	}
	for i := range procs {
		p, x := &procs[i], all
		x.From = max(x.From, p.Started.UnixNano())
		if !p.Ended.IsZero() {
			x.To = min(x.To, p.Ended.UnixNano())
		}
		lived[p.PID] = x
	}
	out := Ranges{}
	for pid, x := range lived {
		if list := with.ranges(pid, append(threads[pid], 0), x); f.wants(pid) && len(list) > 0 {
			out[pid] = list
		}
	}
	return out, nil
}

// ranges returns when one of a process's threads had the labels.
func (l *Labelled) ranges(pid uint32, threads []uint32, in Range) (out []Range) {
	slices.Sort(threads)
	threads = slices.Compact(threads)
	cuts := l.changes(pid, threads, in)
	for i, at := range cuts {
		if !slices.ContainsFunc(threads, func(tid uint32) bool { return l.has(pid, tid, at) }) {
			continue
		}
		end := in.To
		if i+1 < len(cuts) {
			end = cuts[i+1]
		}
		if n := len(out); n > 0 && out[n-1].To == at {
			out[n-1].To = end
			continue
		}
		out = append(out, Range{at, end})
	}
	return out
}

// changes returns the start of a range, and the times in it at which a label of a process's threads
// may change.
func (l *Labelled) changes(pid uint32, threads []uint32, in Range) []int64 {
	if in.From >= in.To {
		return nil
	}
	out := []int64{in.From}
	for i := range l.values {
		v := &l.values[i]
		all := []labelled{}
		for _, tid := range threads {
			all = append(all, labelled{pid, tid})
		}
		for parent, n := v.parents[pid], 0; parent != 0 && n < maxParents; parent, n = v.parents[parent], n+1 {
			all = append(all, labelled{parent, 0})
		}
		for _, who := range all {
			for _, s := range v.spans[who] {
				out = append(out, s.from, s.to)
			}
		}
	}
	out = slices.DeleteFunc(out, func(at int64) bool { return at < in.From || at >= in.To })
	slices.Sort(out)
	return slices.Compact(out)
}

// NotLabelledError means that no selected process had the labels in that time.
type NotLabelledError struct {
	Labels   []Label
	Recorded []Label // some of the recorded labels; those with the keys of Labels first
	More     int     // recorded labels that are not in Recorded
	Set      bool    // each of Labels is recorded, but for other processes or times
}

// Error names the labels.
func (e *NotLabelledError) Error() string {
	return "no selected process had the label " + labelNames(e.Labels, " and ") + " in that time"
}

// Do names recorded labels.
func (e *NotLabelledError) Do() string {
	switch {
	case len(e.Recorded) == 0:
		return "no labels were recorded: set them with ingero annotate, during a trace"
	case e.Set:
		return "choose another time range or other processes: the table labels has the times (docs/reference/schema.md)"
	}
	text := "recorded labels: " + labelNames(e.Recorded, ", ")
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	return text
}

func labelNames(list []Label, sep string) string {
	var names []string
	for _, l := range list {
		names = append(names, l.Key+"="+l.Value)
	}
	return strings.Join(names, sep)
}

// mostRecorded is the number of labels that an error names.
const mostRecorded = 8

// NotLabelled returns the error for labels that no selected process had in the sessions.
func (r *Reader) NotLabelled(ctx context.Context, sessions []Session, labels []Label) error {
	e := &NotLabelledError{Labels: labels}
	for i := range sessions {
		err := r.rows(ctx, func(rows *sql.Rows) error {
			var l Label
			err := rows.Scan(&l.Key, &l.Value)
			e.Recorded = append(e.Recorded, l)
			return err
		}, "SELECT DISTINCT key, value FROM labels WHERE session = ?", sessions[i].id)
		if err != nil {
			return fmt.Errorf("read the labels of session %s: %w", sessions[i].ID, err)
		}
	}
	e.Set = !slices.ContainsFunc(labels, func(l Label) bool { return !slices.Contains(e.Recorded, l) })
	other := func(l Label) int {
		if slices.ContainsFunc(labels, func(x Label) bool { return x.Key == l.Key }) {
			return 0
		}
		return 1
	}
	slices.SortFunc(e.Recorded, func(a, b Label) int {
		return cmp.Or(cmp.Compare(other(a), other(b)), cmp.Compare(a.Key, b.Key), cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Value, b.Value))
	})
	e.Recorded = slices.Compact(e.Recorded)
	e.More = max(len(e.Recorded)-mostRecorded, 0)
	e.Recorded = e.Recorded[:len(e.Recorded)-e.More]
	return e
}
