package tapes

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// said returns a chain of a rule with a process as culprit.
func said(rule string, pid uint32, lost time.Duration) tick.Chain {
	who := events.Thread{PID: pid, TID: pid, Parent: 1}
	return tick.Chain{ID: rule, Rule: rule, Lost: lost, LostMin: lost - 10*ms, LostMax: lost + 10*ms, Culprits: []tick.Culprit{{Thread: who, Lost: lost}}}
}

// The judge finds each difference between the truth and the reports.
func TestJudge(t *testing.T) {
	const hog, stranger = 7, 99
	hogged := Truth{Rules: []string{"cpu-taken"}, Named: true, Culprits: []int{hog}, Lost: Lost{490 * ms, 500 * ms, 510 * ms}}
	for _, tt := range []struct {
		name                   string
		want                   []Truth
		also                   []string
		said                   [][]tick.Chain // by tick
		missed, wrong, extra   []string
		disturbed, covered, ok bool
		stolen                 time.Duration
		hampered               bool
	}{
		{name: "all is right", want: []Truth{hogged}, said: [][]tick.Chain{nil, {said("cpu-taken", hog, 505*ms)}}, covered: true, ok: true},
		{name: "nothing is said", want: []Truth{hogged}, said: [][]tick.Chain{nil, nil}, missed: []string{"cpu-taken"}, covered: true},
		{name: "it is taken back", want: []Truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms)}, nil}, missed: []string{"cpu-taken"}, covered: true},
		{name: "of a decoy something is said once", said: [][]tick.Chain{{said("disk-wait", hog, 505*ms)}, nil}, extra: []string{"disk-wait by "}, covered: true},
		{name: "another cause beside it", want: []Truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms), said("disk-wait", 0, 200*ms)}},
			extra: []string{"disk-wait by "}, covered: true},
		{name: "another cause, which is true", want: []Truth{hogged}, also: []string{"disk-wait"},
			said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms), said("disk-wait", 0, 200*ms)}}, covered: true, ok: true},
		{name: "too much", want: []Truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 905*ms)}}, ok: true},
		{name: "strangers took the CPU", said: [][]tick.Chain{{said("cpu-taken", stranger, 505*ms)}}, disturbed: true, covered: true, ok: true},
		{name: "strangers are no excuse for another cause", said: [][]tick.Chain{{said("stopped", stranger, 505*ms)}}, extra: []string{"stopped by "}, covered: true},
		{name: "of what the hypervisor did something may be said", said: [][]tick.Chain{{said("nccl-straggler", hog, 150*ms)}}, stolen: 70 * ms,
			extra: []string{"nccl-straggler by "}, covered: true, hampered: true},
		{name: "not of more than that", said: [][]tick.Chain{{said("nccl-straggler", hog, 150*ms)}}, stolen: 60 * ms, extra: []string{"nccl-straggler by "}, covered: true},
		{name: "what it took may be reported", said: [][]tick.Chain{{said("cpu-stolen", 0, 150*ms)}}, stolen: 70 * ms, covered: true, ok: true},
		{name: "but no more", said: [][]tick.Chain{{said("cpu-stolen", 0, 150*ms)}}, stolen: 60 * ms, extra: []string{"cpu-stolen by "}, covered: true},
		{name: "nor besides", said: [][]tick.Chain{{said("disk-wait", hog, 500*ms), said("nccl-straggler", hog, 150*ms)}}, stolen: 70 * ms,
			extra: []string{"disk-wait by ", "nccl-straggler by "}, covered: true},
		{name: "nor of a fault", want: []Truth{hogged}, said: [][]tick.Chain{nil}, stolen: time.Second, missed: []string{"cpu-taken"}, covered: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &Outcome{Want: tt.want, Also: tt.also, Ours: []int{hog}, Stolen: tt.stolen}
			for i, chains := range tt.said {
				o.Heard = append(o.Heard, Heard{time.Unix(int64(i), 0), chains})
			}
			v := Judge(o)
			if !slices.Equal(v.Missed, tt.missed) || !slices.Equal(v.Wrong, tt.wrong) || !slices.Equal(v.False, tt.extra) {
				t.Errorf("missed %q, culprits not of %q, false %q; want %q, %q, %q", v.Missed, v.Wrong, v.False, tt.missed, tt.wrong, tt.extra)
			}
			if v.Right() != tt.ok || v.Covered() != tt.covered || len(v.Disturbed) > 0 != tt.disturbed || v.Hampered != tt.hampered {
				t.Errorf("right %v, covered %v, disturbed %q, hampered %v", v.Right(), v.Covered(), v.Disturbed, v.Hampered)
			}
		})
	}
}

// An unnamed cause is identified by its culprit: another process is wrong.
func TestJudgeCulprit(t *testing.T) {
	quota := said("cpu-throttled", 5, 500*ms)
	v := Judge(&Outcome{Want: []Truth{{Rules: []string{"cpu-throttled"}, Named: true, Culprits: []int{7}}}, Heard: []Heard{{Chains: []tick.Chain{quota}}}})
	if !slices.Equal(v.Wrong, []string{"cpu-throttled"}) || v.Right() {
		t.Errorf("culprits not of %q", v.Wrong)
	}
}

// A diagnosis is fully right, or each of its errors is reported.
func TestJudgeDiagnosis(t *testing.T) {
	const hog, job, rank = 7.0, 5.0, 6.0
	hogged := Truth{Rules: []string{"cpu-taken"}, Named: true, Culprits: []int{hog}, Lost: Lost{490 * ms, 500 * ms, 510 * ms}}
	late := Truth{Rules: []string{"nccl-straggler"}, Named: true, Culprits: []int{rank}, Lost: hogged.Lost}
	self := Truth{Rules: []string{"gil-wait"}, Culprits: []int{job, rank}, Lost: hogged.Lost}
	disk := Truth{Rules: []string{"disk-wait"}, Lost: Lost{100 * ms, 100 * ms, 100 * ms}}
	reported := func(change func(d *Diagnosis)) *Diagnosis {
		d := &Diagnosis{Text: "bad", Tokens: 200, Rows: [][]any{{"hog", hog, "sh 6", nil, nil, 4e8}, {"cron", 9.0, nil, nil, nil, 1e8}},
			Facts: map[string]any{"rule": "cpu-taken", "lost_ns": 5e8, "lost_min_ns": 48e7, "lost_max_ns": 52e7, "fix": "taskset", "confidence": 0.9, "job": "victim", "pid": job, "cause": "CPU taken by hog"}}
		change(d)
		return d
	}
	delayed := func(pid float64, others string) *Diagnosis {
		return reported(func(d *Diagnosis) { d.Facts["pid"], d.Facts["others"] = pid, others })
	}
	also := []string{"cpu-taken"}
	well := &Diagnosis{Text: "ok, nothing is wrong\nwell=...", Tokens: 40}
	for _, tt := range []struct {
		name     string
		want     []Truth
		also     []string
		reported *Diagnosis
		out      []string
	}{
		{name: "all is right", want: []Truth{hogged}, reported: reported(func(*Diagnosis) {})},
		{name: "nothing is wrong", reported: well},
		{name: "nobody felt a fault", reported: &Diagnosis{Text: "bad: no cause of lost time was found, but GPUs reported faults", Facts: map[string]any{"faults": 1.0}}},
		{name: "nothing was asked", out: []string{"there is none"}},
		{name: "it reports that nothing is wrong", want: []Truth{hogged}, reported: well, out: []string{`the cause is ""`}},
		{name: "something is said of a decoy", reported: reported(func(*Diagnosis) {}), out: []string{"it does not say that nothing is wrong"}},
		{name: "something that is true", also: []string{"cpu-taken"}, reported: reported(func(*Diagnosis) {})},
		{name: "too long", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { d.Tokens = 601 }), out: []string{"601 tokens"}},
		{name: "another culprit", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { d.Rows = d.Rows[1:] }), out: []string{"the culprit"}},
		{name: "a child of the culprit", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { d.Rows = [][]any{{"work", 12.0, "hog 7", nil, nil, 5e8}} })},
		{name: "too much", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { d.Facts["lost_min_ns"] = 6e8; d.Facts["lost_max_ns"] = 7e8 }), out: []string{"lost 600 to 700 of 500 ms"}},
		{name: "another job", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { d.Facts["pid"] = 8.0 }), out: []string{"the job is 8"}},
		{name: "nothing to do", want: []Truth{hogged}, reported: reported(func(d *Diagnosis) { delete(d.Facts, "fix") }), out: []string{"no fix"}},
		{name: "one of two", want: []Truth{hogged, disk}, reported: reported(func(d *Diagnosis) { d.Facts["lost_max_ns"] = 6e8 }), out: []string{"not reported: disk-wait"}},
		{name: "two", want: []Truth{hogged, disk}, reported: reported(func(d *Diagnosis) { d.Facts["others"] = "disk-wait 100ms c-9" })},
		{name: "what delayed a rank", want: []Truth{late}, also: also, reported: delayed(rank, "nccl-straggler 500ms c-9")},
		{name: "what delayed a rank that waited", want: []Truth{late}, also: also, reported: delayed(job, "nccl-straggler 500ms c-9"), out: []string{`the cause is "cpu-taken"`}},
		{name: "what delayed a rank that nothing delays", want: []Truth{late}, reported: delayed(rank, "nccl-straggler 500ms c-9"), out: []string{`the cause is "cpu-taken"`}},
		{name: "what delayed a job that waits for itself", want: []Truth{self}, also: also, reported: delayed(job, "gil-wait 500ms c-9"), out: []string{`the cause is "cpu-taken"`}},
		{name: "a further cause, within a tenth", want: []Truth{late}, also: also, reported: delayed(rank, "nccl-straggler 450ms c-9")},
		{name: "a further cause, too small", want: []Truth{late}, also: also, reported: delayed(rank, "nccl-straggler 440ms c-9"), out: []string{"lost 396 to 484 of 500 ms"}},
		{name: "a further cause, too large", want: []Truth{late}, also: also, reported: delayed(rank, "nccl-straggler 570ms c-9"), out: []string{"lost 513 to 627 of 500 ms"}},
		{name: "not whom it delayed", want: []Truth{late}, also: also, reported: delayed(rank, ""), out: []string{"not reported: nccl-straggler", "lost 0 to 0 of 500 ms"}},
		{name: "no culprits", want: []Truth{late}, also: also, reported: reported(func(d *Diagnosis) {
			d.Facts["pid"], d.Facts["others"], d.Rows = rank, "nccl-straggler 500ms c-9", nil
			delete(d.Facts, "job")
		}), out: []string{"no job", "no culprits"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &Outcome{Want: tt.want, Also: tt.also, Victims: []int{job, rank}}
			if got := o.judgeDiagnosis(tt.reported); !slices.Equal(got, tt.out) {
				t.Errorf("wrong: %q, want %q", got, tt.out)
			}
		})
	}
}
