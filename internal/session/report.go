package session

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"ingero/internal/proc"
	"ingero/internal/tick"
)

// reporter collects the reports of ticks. All owners share it, including its log and notify. Its
// methods are safe for concurrent use and with any lock held: reporter takes no other lock.
type reporter struct {
	log    *slog.Logger
	notify func(Notice) // must not block

	mu   sync.Mutex
	list []tick.Report
}

// maxOfKind bounds the reports of one kind, so that those of many short processes leave room for
// those that say what is not exact.
const maxOfKind = 200

// add adds new reports.
func (r *reporter) add(reports ...tick.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addNew(reports)
}

// addNew is add with mu held.
func (r *reporter) addNew(reports []tick.Report) {
	for _, x := range reports {
		alike := 0
		for i := range r.list {
			if r.list[i].Kind == x.Kind {
				alike++
			}
		}
		if alike < maxOfKind && !slices.Contains(r.list, x) {
			r.list = append(r.list, x)
		}
	}
}

// replace replaces an object's reports of the given kinds.
func (r *reporter) replace(object string, kinds []string, reports ...tick.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(x tick.Report) bool { return x.Object == object && slices.Contains(kinds, x.Kind) })
	r.addNew(reports)
}

// uncounted reports operations that lose their probes, each once: from then on their counts are
// lower bounds.
func (r *reporter) uncounted(at string, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if !slices.ContainsFunc(r.list, func(x tick.Report) bool { return x.Kind == tick.LowerBound && x.Object == name }) {
			r.addNew([]tick.Report{{Kind: tick.LowerBound, Object: name, Why: "after " + at + " the probe was off at times (hot-off), and calls made then are not counted"}})
		}
	}
}

// failed reports an object that could not be probed, unless the process has ended.
func (r *reporter) failed(pid uint32, object string, err error) {
	if errors.Is(err, proc.ErrExited) {
		return
	}
	r.add(tick.Report{Kind: "not-attached", Object: object, Why: err.Error()})
	r.notify(Notice{Kind: NoticeFailed, PID: pid, Library: object, Err: err})
}

// all returns the reports so far.
func (r *reporter) all() []tick.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
