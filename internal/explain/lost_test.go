package explain

import (
	"encoding/json"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// lostInput is a day of two machines: a job of two ranks with two GPUs each, which lose time in
// parallel, and a server.
func lostInput() *LostInput {
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	a, b := &query.Session{Session: segment.Session{ID: "a", Node: "gpu-1"}}, &query.Session{Session: segment.Session{ID: "b", Node: "gpu-2"}}
	in := &LostInput{From: day, To: day.Add(24 * time.Hour), Source: "x.db"}
	for i, s := range []*query.Session{a, b} {
		p := tick.Process{PID: 7, Comm: "python3", Where: tick.Where{Cmdline: "python3 train.py", Job: "4711"}}
		in.Observed = append(in.Observed, query.Observed{Session: s, Process: p, From: day, To: day.Add(10 * time.Hour), GPUs: 2})
		for m := range 10 {
			at := day.Add(time.Duration(m) * time.Minute)
			from := at.Add(time.Duration(i) * 7 * time.Millisecond) // the chains of ranks begin one after the other
			in.Losses = append(in.Losses, query.Loss{Session: s, From: from, To: at.Add(time.Minute), Slot: at, Chain: "c", Rule: "cpu-taken", Culprit: "stress-ng", PID: 7, Lost: 30 * time.Second})
		}
	}
	in.Observed = append(in.Observed, query.Observed{Session: b, Process: tick.Process{PID: 8, Comm: "vllm\x1b[31m"}, From: day, To: day.Add(2 * time.Hour), GPUs: 1})
	in.Losses = append(in.Losses, query.Loss{Session: b, From: day, To: day.Add(time.Minute), Slot: day, Chain: "d", Rule: "cpu-throttled", PID: 8, Lost: 6 * time.Second})
	return in
}

func TestLosses(t *testing.T) {
	for name, change := range map[string]func(*LostInput){
		"all":     func(*LostInput) {},
		"priced":  func(in *LostInput) { in.Price, in.By = 2.5, []string{"culprit"} },
		"healthy": func(in *LostInput) { in.Losses = nil },
		"empty":   func(in *LostInput) { in.Losses, in.Observed = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			in := lostInput()
			change(in)
			testkit.Golden(t, "losses_"+name+".txt", Losses(in, Options{}))
		})
	}
}

// A job of two ranks with two GPUs each that loses half of ten minutes loses five minutes of wall
// time and twenty of GPU time.
func TestLossesJSON(t *testing.T) {
	b, err := LossesJSON(lostInput())
	if err != nil {
		t.Fatal(err)
	}
	var r wire.Losses
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	jobs := r.By["job"]
	if len(jobs) != 2 || jobs[0].Name != "job 4711" || jobs[0].WallNS != int64(5*time.Minute) || jobs[0].LostNS != int64(20*time.Minute) || jobs[0].ObservedNS != int64(40*time.Hour) {
		t.Errorf("jobs: %+v", jobs)
	}
	if r.LostNS != int64(20*time.Minute+6*time.Second) || r.WallNS != int64(5*time.Minute+6*time.Second) || r.ObservedNS != int64(42*time.Hour) {
		t.Errorf("in all: %+v", r)
	}
}
