package cli

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func TestRemarks(t *testing.T) {
	const exact = "counts and sums of its operations are exact"
	counted := func(s *query.Summary) {
		s.Rebuilt, s.Thinned, s.CountedFrom = true, true, time.Unix(1000, 0)
		s.From, s.To, s.CountedTo = s.CountedFrom, s.CountedFrom, s.CountedFrom
		for _, name := range []string{"cudaEventRecord", "cudaLaunchKernel"} {
			op, _ := events.OpByName(name)
			s.Ops = append(s.Ops, tick.Op{Op: op})
		}
	}
	for name, tt := range map[string]struct {
		change func(s *query.Summary)
		want   string
	}{
		"ended":                          {func(s *query.Summary) { s.Session.State = "ended" }, ""},
		"running":                        {func(s *query.Summary) { s.Session.State = "running" }, "still running"},
		"interrupted":                    {func(s *query.Summary) { s.Session.State = "interrupted" }, "was killed"},
		"full":                           {func(s *query.Summary) { s.Session.State, s.Session.Problem = "full", "no space" }, "no space"},
		"thinned":                        {func(s *query.Summary) { s.Rebuilt, s.Thinned = true, true }, "estimates"},
		"thinned, counted by the kernel": {counted, exact + "; quantiles"},
		"thinned, counted by the kernel, and without probes for some time": {func(s *query.Summary) {
			counted(s)
			for _, name := range []string{"cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync"} { // the last one is not called here
				s.Reports = append(s.Reports, tick.Report{Kind: tick.LowerBound, Object: name})
			}
		}, exact + ", except lower bounds of cudaLaunchKernel; quantiles"},
		"damaged": {func(s *query.Summary) { s.Damage = []string{"bad sum", "bad end"} }, "bad sum; bad end"},
		"pruned":  {func(s *query.Summary) { s.Session.Pruned = true }, "have been removed"},
		"cut":     {func(s *query.Summary) { s.Session.Cut = true }, "to free space"},
	} {
		t.Run(name, func(t *testing.T) {
			var s query.Summary
			tt.change(&s)
			got := strings.Join(remarks([]*query.Summary{&s}, time.UTC), "\n")
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("remarks = %q, want %q", got, tt.want)
			}
		})
	}
}

// The remarks on several recordings give the unrecorded time between them, and mention killed
// traces once.
func TestRemarksOfSeveral(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 2, 10, 0, s, 0, time.UTC) }
	session := func(node string, from, to int, state string) *query.Summary {
		return &query.Summary{Session: query.Session{Session: segment.Session{Node: node, Started: at(from)}, Ended: at(to), State: state}}
	}
	for name, tt := range map[string]struct {
		sums []*query.Summary
		want string
	}{
		"one after the other": {[]*query.Summary{session("a", 0, 5, "ended"), session("a", 5, 9, "ended")}, ""},
		"a gap, the later one first": {[]*query.Summary{session("a", 7, 9, "ended"), session("a", 0, 5, "ended")},
			"nothing was recorded for 2.00 s, from 10:00:05 to 10:00:07"},
		"days": {[]*query.Summary{session("a", 0, 5, "ended"), session("a", 2*24*3600, 2*24*3600+9, "ended")},
			"nothing was recorded for 2 d 0 h, from 2026-03-02 10:00:05 to 2026-03-04 10:00:00"},
		"a moment": {[]*query.Summary{session("a", 0, 5, "ended"), {Session: query.Session{Session: segment.Session{Node: "a", Started: at(5).Add(900 * time.Millisecond)}, Ended: at(9), State: "ended"}}}, ""},
		"two gaps": {[]*query.Summary{session("a", 0, 5, "ended"), session("a", 6, 9, "ended"), session("a", 19, 30, "ended")},
			"nothing was recorded for 11.0 s, in 2 gaps between traces, the longest from 10:00:09 to 10:00:19"},
		"within another": {[]*query.Summary{session("a", 0, 20, "ended"), session("a", 2, 5, "ended"), session("a", 10, 30, "ended")}, ""},
		"machines": {[]*query.Summary{session("a", 0, 5, "ended"), session("b", 0, 9, "ended"), session("a", 8, 9, "ended")},
			"a: nothing was recorded for 3.00 s, from 10:00:05 to 10:00:08"},
		"killed": {[]*query.Summary{session("a", 0, 5, "interrupted"), session("a", 5, 9, "interrupted"), session("a", 9, 12, "interrupted"), session("a", 12, 15, "ended")},
			"3 traces were killed, the last at 10:00:12; this is their state at that time"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(remarks(tt.sums, time.UTC), "\n"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
