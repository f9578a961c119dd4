package session

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// After host-off, the cost that it ended is unknown until it is measured again.
func TestHostCostAfterHostOff(t *testing.T) {
	testkit.NeedBPF(t)
	tr, err := probes.Open(probes.Options{Rows: events.Catalog[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s := &shedder{opts: &LiveOptions{}, tracer: tr, libs: &libraries{}, refused: true, spent: Spent{Host: 0.03, Ledger: 0.01},
		report: &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}}
	step := slices.IndexFunc(govern.Steps[:], func(x govern.Step) bool { return x.Name == "host-off" })
	if err := s.Shed(time.Unix(0, 0), govern.Change{Step: step}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Spent(); err != nil || got.Host != 0 || got.Ledger != 0.01 {
		t.Errorf("%+v, %v", got, err)
	}
}
