package incidents

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// said is a chain of some rule by some process.
func said(rule string, pid uint32, lost time.Duration) tick.Chain {
	who := events.Thread{PID: pid, TID: pid, Parent: 1}
	return tick.Chain{ID: rule, Rule: rule, Lost: lost, LostMin: lost - 10*ms, LostMax: lost + 10*ms, Culprits: []tick.Culprit{{Thread: who, Lost: lost}}}
}

// The judge is told the truth and what was said, and finds what is not the same.
func TestJudge(t *testing.T) {
	const hog, stranger = 7, 99
	hogged := truth{Rules: []string{"cpu-taken"}, Named: true, Culprits: []int{hog}, Lost: lost{490 * ms, 500 * ms, 510 * ms}}
	for _, tt := range []struct {
		name                   string
		want                   []truth
		also                   []string
		said                   [][]tick.Chain // by tick
		missed, wrong, extra   []string
		disturbed, covered, ok bool
	}{
		{name: "all is right", want: []truth{hogged}, said: [][]tick.Chain{nil, {said("cpu-taken", hog, 505*ms)}}, covered: true, ok: true},
		{name: "nothing is said", want: []truth{hogged}, said: [][]tick.Chain{nil, nil}, missed: []string{"cpu-taken"}, covered: true},
		{name: "it is taken back", want: []truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms)}, nil}, missed: []string{"cpu-taken"}, covered: true},
		{name: "of a decoy something is said once", said: [][]tick.Chain{{said("disk-wait", hog, 505*ms)}, nil}, extra: []string{"disk-wait by "}, covered: true},
		{name: "another cause beside it", want: []truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms), said("disk-wait", 0, 200*ms)}},
			extra: []string{"disk-wait by "}, covered: true},
		{name: "another cause, which is true", want: []truth{hogged}, also: []string{"disk-wait"},
			said: [][]tick.Chain{{said("cpu-taken", hog, 505*ms), said("disk-wait", 0, 200*ms)}}, covered: true, ok: true},
		{name: "too much", want: []truth{hogged}, said: [][]tick.Chain{{said("cpu-taken", hog, 905*ms)}}, ok: true},
		{name: "strangers took the CPU", said: [][]tick.Chain{{said("cpu-taken", stranger, 505*ms)}}, disturbed: true, covered: true, ok: true},
		{name: "strangers are no excuse for another cause", said: [][]tick.Chain{{said("stopped", stranger, 505*ms)}}, extra: []string{"stopped by "}, covered: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &outcome{Want: tt.want, Also: tt.also, Ours: []int{hog}}
			for i, chains := range tt.said {
				o.Heard = append(o.Heard, heard{time.Unix(int64(i), 0), chains})
			}
			v := judge(o)
			if !slices.Equal(v.Missed, tt.missed) || !slices.Equal(v.Wrong, tt.wrong) || !slices.Equal(v.False, tt.extra) {
				t.Errorf("missed %q, culprits not of %q, false %q; want %q, %q, %q", v.Missed, v.Wrong, v.False, tt.missed, tt.wrong, tt.extra)
			}
			if v.right() != tt.ok || v.covered() != tt.covered || len(v.Disturbed) > 0 != tt.disturbed {
				t.Errorf("right %v, covered %v, disturbed %q", v.right(), v.covered(), v.Disturbed)
			}
		})
	}
}

// A cause that was not named is told by the culprit: somebody else is not right.
func TestJudgeCulprit(t *testing.T) {
	quota := said("cpu-throttled", 5, 500*ms)
	v := judge(&outcome{Want: []truth{{Rules: []string{"cpu-throttled"}, Named: true, Culprits: []int{7}}}, Heard: []heard{{Chains: []tick.Chain{quota}}}})
	if !slices.Equal(v.Wrong, []string{"cpu-throttled"}) || v.right() {
		t.Errorf("culprits not of %q", v.Wrong)
	}
}
