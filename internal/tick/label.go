package tick

import (
	"cmp"
	"slices"
)

// Label is one change of a label: what a program says about itself, such as its step or tenant. A
// label lasts until its next change, or until its process ends.
type Label struct {
	Time int64  // Unix nanoseconds
	PID  uint32 // in the root PID namespace
	TID  uint32 // 0: the whole process
	Key  string // "": all labels of the process
	// Value is the new value; "": the label ends.
	Value string
}

// Limits of labels.
const (
	MaxLabelKey   = 32
	MaxLabelValue = 128
)

// LabelKey reports whether a text may be a label's key: [a-z][a-z0-9_.]{0,31}.
func LabelKey(s string) bool {
	if s == "" || len(s) > MaxLabelKey || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// LabelSpan is a period in which a label has one value.
type LabelSpan struct {
	PID, TID   uint32
	Key, Value string
	From       int64 // Unix nanoseconds
	To         int64 // Unix nanoseconds; 0: it has not ended
}

// maxOpenLabels bounds the labels that [Labels] follows.
const maxOpenLabels = 1 << 16

// Labels turns changes of labels into spans. The zero value has no labels.
type Labels struct {
	open map[labelID]LabelSpan
}

type labelID struct {
	pid, tid uint32
	key      string
}

// Batch takes a batch's changes, and the exits that end labels, in the order of their times. It
// calls change for each span that begins or ends. A value that is set again continues its span.
func (l *Labels) Batch(list []Label, procs []ProcEvent, change func(LabelSpan)) {
	if len(list) == 0 && len(l.open) == 0 {
		return
	}
	all := slices.Clone(list)
	for i := range procs {
		if e := &procs[i]; e.Kind == ProcExited {
			all = append(all, Label{Time: e.Time, PID: e.PID})
		}
	}
	slices.SortStableFunc(all, func(a, b Label) int { return cmp.Compare(a.Time, b.Time) })
	for i := range all {
		l.apply(&all[i], change)
	}
}

// Open calls each for each span that has not ended, in any order.
func (l *Labels) Open(each func(LabelSpan)) {
	for _, s := range l.open {
		each(s)
	}
}

func (l *Labels) apply(x *Label, change func(LabelSpan)) {
	if x.Key == "" {
		for id, s := range l.open {
			if id.pid == x.PID && (x.TID == 0 || id.tid == x.TID) && s.From <= x.Time { // a later one is of another process
				l.end(id, s, x.Time, change)
			}
		}
		return
	}
	id := labelID{x.PID, x.TID, x.Key}
	was, has := l.open[id]
	if has && was.Value == x.Value {
		return
	}
	if has {
		l.end(id, was, x.Time, change)
	}
	if x.Value == "" || len(l.open) >= maxOpenLabels {
		return
	}
	if l.open == nil {
		l.open = map[labelID]LabelSpan{}
	}
	s := LabelSpan{PID: x.PID, TID: x.TID, Key: x.Key, Value: x.Value, From: x.Time}
	l.open[id] = s
	change(s)
}

func (l *Labels) end(id labelID, s LabelSpan, at int64, change func(LabelSpan)) {
	delete(l.open, id)
	s.To = max(at, s.From)
	change(s)
}
