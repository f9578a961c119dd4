package query

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Label is a label that calls must have at their start: see [tick.Label].
type Label struct{ Key, Value string }

// ParseLabels parses labels of the form key=value.
func ParseLabels(list []string) (out []Label, err error) {
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || !tick.LabelKey(key) || value == "" {
			return nil, fmt.Errorf("%q is not a label: write key=value", text)
		}
		out = append(out, Label{key, value})
	}
	return out, nil
}

// labelEscapes escapes what separates labels in [JoinLabels].
var labelEscapes = strings.NewReplacer(`\`, `\\`, ",", `\,`)

// JoinLabels joins the texts of labels with commas. A comma in a text becomes \, and a backslash \\.
func JoinLabels(list []string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = labelEscapes.Replace(text)
	}
	return strings.Join(out, ",")
}

// SplitLabels is the reverse of [JoinLabels]. Other backslashes remain.
func SplitLabels(text string) (list []string) {
	var one strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ',':
			list = append(list, one.String())
			one.Reset()
			continue
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
		}
		one.WriteByte(text[i])
	}
	return append(list, one.String())
}

// labelValues has the values of one label over time. The label of a thread hides that of its
// process, and that of a process hides those of its parents.
type labelValues struct {
	spans   map[labelled][]labelSpan
	parents map[uint32]uint32 // of processes
}

// maxParents bounds the parents that a process can have a label from.
const maxParents = 8

// labelled is a thread, or a process if tid is 0.
type labelled struct{ pid, tid uint32 }

// labelSpan is a period in which a label has one value; to is 0 if the label has not ended.
type labelSpan struct {
	from, to int64
	value    string
}

// value returns the value that a thread has at a time, "" for none.
func (v *labelValues) value(pid, tid uint32, at int64) string {
	if len(v.spans) == 0 {
		return ""
	}
	who := labelled{pid, tid}
	for range 2 + maxParents {
		spans := v.spans[who]
		i, _ := slices.BinarySearchFunc(spans, at, func(s labelSpan, at int64) int {
			if s.from <= at {
				return -1
			}
			return 1
		})
		if i > 0 && (spans[i-1].to == 0 || at < spans[i-1].to) {
			return spans[i-1].value
		}
		if who.tid == 0 {
			who.pid = v.parents[who.pid]
		}
		if who.tid = 0; who.pid == 0 {
			break
		}
	}
	return ""
}

// labelValues reads the values of a label that overlap the filter's window.
func (r *Reader) labelValues(ctx context.Context, s *Session, f Filter, key string) (out labelValues, err error) {
	out = labelValues{map[labelled][]labelSpan{}, map[uint32]uint32{}}
	procs, err := r.processes(ctx, s.id)
	if err != nil {
		return out, err
	}
	for i := range procs {
		out.parents[procs[i].PID] = procs[i].PPID
	}
	from, to := bounds(f)
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var who labelled
		var span labelSpan
		err := rows.Scan(&who.pid, &who.tid, &span.from, &span.to, &span.value)
		out.spans[who] = append(out.spans[who], span)
		return err
	}, `SELECT pid, tid, from_ns, coalesce(to_ns, 0), value FROM labels WHERE session = ?1 AND key = ?2 AND from_ns < ?3 AND (to_ns IS NULL OR to_ns > ?4)
		ORDER BY pid, tid, from_ns`, s.id, key, to, from)
	if err != nil {
		return out, fmt.Errorf("read the labels of session %s: %w", s.ID, err)
	}
	return out, nil
}

// LabelSpans returns the periods of the labels of the filter's processes that began or ended in its
// window, in the order in which they began.
func (r *Reader) LabelSpans(ctx context.Context, f Filter) (out []tick.LabelSpan, err error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l tick.LabelSpan
		err := rows.Scan(&l.PID, &l.TID, &l.Key, &l.From, &l.Value, &l.To)
		if f.wants(l.PID) {
			out = append(out, l)
		}
		return err
	}, `SELECT pid, tid, key, from_ns, value, coalesce(to_ns, 0) FROM labels WHERE session = ?1 AND (from_ns >= ?2 AND from_ns < ?3 OR to_ns >= ?2 AND to_ns < ?3)
		ORDER BY from_ns, pid, tid, key`, s.id, from, to)
	if err != nil {
		return nil, fmt.Errorf("read the labels of session %s: %w", s.ID, err)
	}
	return out, nil
}

// Labelled selects the calls that have all labels of a filter. The zero value selects all.
type Labelled struct {
	labels []Label
	values []labelValues // of labels
}

// Labelled returns the filter's labels in one session: the one place where a label becomes periods
// of time.
func (r *Reader) Labelled(ctx context.Context, s *Session, f Filter) (out Labelled, err error) {
	for _, l := range f.Labels {
		values, err := r.labelValues(ctx, s, f, l.Key)
		if err != nil {
			return out, err
		}
		out.labels, out.values = append(out.labels, l), append(out.values, values)
	}
	return out, nil
}

// Has reports whether a call has the labels.
func (l *Labelled) Has(c *events.Call) bool { return l.has(c.PID, c.TID, c.Start) }

// has reports whether a thread has the labels at a time.
func (l *Labelled) has(pid, tid uint32, at int64) bool {
	for i := range l.labels {
		if l.values[i].value(pid, tid, at) != l.labels[i].Value {
			return false
		}
	}
	return true
}
