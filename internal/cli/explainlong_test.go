package cli

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// What was kept of a recording is what its analysis finds: the same chains, and the same
// account to the nanosecond, thread by thread, with the same names.
func TestStoredIsWhatAnalysisFinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := recordIncident(path); err != nil {
		t.Fatal(err)
	}
	r, err := query.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := r.Rolled(t.Context(), query.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want explain.Input
	if err := stored(t.Context(), r, s, query.Filter{}, &got); err != nil {
		t.Fatal(err)
	}
	c, err := analyse(t.Context(), r, &s.Session, time.Time{}, time.Time{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.ledger(&want, nil)
	told := func(in *explain.Input) string {
		in.Threads, in.Host, in.Launches, in.Processes = nil, nil, nil, s.Processes
		for i := range in.Breakdowns { // the median of parts is of the last row
			in.Breakdowns[i].Loop.Usual = tick.StepTimes{}
		}
		b, err := explain.ReportJSON(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	host := got.Host
	if diff := cmp.Diff(told(&want), told(&got)); diff != "" {
		t.Errorf("-analysed +kept:\n%s", diff)
	}
	if host == nil || host.CPUs != 2 {
		t.Errorf("host %+v, want that of two CPUs", host)
	}
}
