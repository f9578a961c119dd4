package store

import (
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// The table has each read of an inference server; unknown values are NULL.
func TestInferenceInTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	recordGPUs(t, path)
	for query, want := range map[string]string{
		"SELECT count(*), count(since_ns), count(running), sum(why = '') FROM inference":                                                                                                        "8 3 4 4",
		"SELECT engine, model, url, running, waiting, kv_cache, preemptions, prompt_tokens, generated_tokens, time_ns - since_ns FROM inference WHERE pid = 4821 ORDER BY time_ns DESC LIMIT 1": "vLLM Qwen/Qwen2.5-7B http://localhost:8000/metrics 4 0 0.25 1 1000 500 1000000000",
		"SELECT first_token, decode, request FROM inference WHERE pid = 4821 ORDER BY time_ns LIMIT 2":                                                                                          "<nil> <nil> <nil>\n{\"count\":3,\"sum\":0.7,\"buckets\":[{\"over\":0.1,\"up_to\":0.25,\"count\":2},{\"over\":0.5,\"count\":1}]} {\"count\":3,\"sum\":9.5} <nil>",
		"SELECT engine, why, remedy, running FROM inference WHERE pid = 4822 LIMIT 1":                                                                                                           "SGLang the server answered with HTTP status 404 start SGLang with --enable-metrics <nil>",
	} {
		if got := testkit.Rows(t, path, query); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
		}
	}
}

// A replay delivers each read of an inference server once, in its original tick.
func TestReplayTellsInference(t *testing.T) {
	ticks, k := replayGPUs(t)
	var want, got [][]tick.Inference
	for _, live := range ticks {
		want = append(want, live.Inference)
	}
	for i := range k.Ticks {
		got = append(got, k.Ticks[i].Inference)
	}
	if d := diff.Diff(want, got, cmpopts.EquateApproxTime(0)); d != "" {
		t.Errorf("-live +replay:\n%s", d)
	}
}

// A read with numbers that cannot be encoded is dropped alone, and counted.
func TestInvalidRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	c.advance(time.Second)
	good := tick.Inference{Time: c.now, PID: 7, URL: "http://localhost:8000/metrics", Running: storetest.Ptr(3.0)}
	for i, bad := range []tick.Inference{
		{FirstToken: &tick.Durations{Count: 1, Buckets: []tick.DurationBucket{{Over: math.Inf(1), Count: 1}}}},
		{Waiting: storetest.Ptr(math.NaN())},
	} {
		c.advance(time.Second)
		bad.Time, bad.PID, good.Time = c.now, 8, c.now
		if err := db.Tick(&tick.Tick{Time: c.now, Seq: uint64(i), Inference: []tick.Inference{bad, good}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Problem(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Rows(t, path, "SELECT pid, running, (SELECT count FROM drops WHERE reason = 'rows-left-out') FROM inference"); got != "7 3 2\n7 3 2" {
		t.Errorf("reads and drops: %s", got)
	}
	reads := 0
	l := openSession(t, db)
	var e segment.Entry
	for l.Next(&e) == nil {
		reads += len(e.Inference)
	}
	if reads != 2 {
		t.Errorf("%d reads in the log, want 2", reads)
	}
}

// While another process locks the database, a bounded number of reads is queued.
func TestInferenceWaitsForTheDatabase(t *testing.T) {
	v := &saver{}
	for range 2 * maxStates / 3 {
		v.noteInference(&tick.Tick{Inference: make([]tick.Inference, 3)})
	}
	if len(v.inference) != maxStates {
		t.Errorf("%d reads wait", len(v.inference))
	}
}
