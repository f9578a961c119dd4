package clickhouse_test

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// longFacts adds to a tick what each of some days has beside calls.
func longFacts(days int) func(*tick.Batch, *tick.Tick) {
	return func(b *tick.Batch, x *tick.Tick) {
		for day := range days {
			at := began.Add(time.Duration(day) * 24 * time.Hour)
			x.Requests = append(x.Requests, tick.Request{PID: 7, Port: 8000, Arrived: at.UnixNano()})
			x.Inference = append(x.Inference, tick.Inference{Time: at, PID: 7, URL: "http://localhost:8000"})
			x.Chains = append(x.Chains, tick.Chain{ID: fmt.Sprint(day), Rule: "cpu-taken", PID: 7, From: at, To: at.Add(time.Second), Lost: 1})
			b.Labels = append(b.Labels, tick.Label{Time: at.UnixNano(), PID: 7, Key: "day", Value: fmt.Sprint(day)})
		}
	}
}

// No INSERT has rows of more days than a server accepts.
func TestLongRecording(t *testing.T) {
	const days = 102
	w := newRecorder(t, "long")
	w.gap = 24 * time.Hour
	w.record(days)
	w.facts = longFacts(days)
	k, address := newKeeper(t)
	cl, err := clickhouse.Open(address, hurried)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := clickhouse.Copy(t.Context(), cl, w.whole(), query.Filter{Session: "long"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"calls", "requests", "inference", "labels"} {
		k.check(table, days)
	}
	k.check("chains", days+1)
}
