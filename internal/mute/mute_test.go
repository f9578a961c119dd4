package mute

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/causal"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var now = time.Unix(1_700_000_000, 0)

func chain(id, rule, by string, grade tick.Severity) tick.Chain {
	c := tick.Chain{ID: id, Rule: rule, Severity: grade}
	switch {
	case strings.HasPrefix(by, "disk"):
		c.Culprits = []tick.Culprit{{What: by}}
	case by != "":
		c.Culprits = []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf(by)}}}
	}
	return c
}

// What is not shown is handed over with the first reason; the rest keeps its order.
func TestSplit(t *testing.T) {
	all := []tick.Chain{
		chain("c-1", "cpu-taken", "stress", tick.High), chain("c-2", "disk-wait", "disk 8:0", tick.High),
		chain("c-3", "cpu-taken", "backup", tick.Medium), chain("c-4", "lock-wait", "", tick.Low),
	}
	silenced := func(what string, left time.Duration) Filter {
		return Filter{Silences: []tick.Silence{{What: what, Until: now.Add(left)}}}
	}
	for _, tt := range []struct {
		name string
		f    Filter
		want string // of each chain: "+", or why it is not shown
	}{
		{"nothing", Filter{}, "+ + + +"},
		{"all are grave enough", Filter{Least: tick.Low}, "+ + + +"},
		{"grave ones", Filter{Least: tick.High}, "+ + min-severity min-severity"},
		{"rules", Filter{Off: []string{"cpu-taken", "lock-wait"}}, "rules-off + rules-off rules-off"},
		{"a chain", silenced("c-3", 1), "+ + silenced +"},
		{"a rule", silenced("cpu-taken", 1), "silenced + silenced +"},
		{"a culprit", silenced("cpu-taken@backup", 1), "+ + silenced +"},
		{"a thing", silenced("disk-wait@disk 8:0", 1), "+ silenced + +"},
		{"another's culprit", silenced("lock-wait@backup", 1), "+ + + +"},
		{"whose time is over", silenced("cpu-taken", 0), "+ + + +"},
		{"two reasons", Filter{Least: tick.High, Silences: []tick.Silence{{What: "lock-wait", Until: now.Add(1)}}}, "+ + min-severity silenced"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, hidden := tt.f.Split(all, now)
			var got []string
			for i := range all {
				switch {
				case len(shown) > 0 && shown[0].ID == all[i].ID:
					got, shown = append(got, "+"), shown[1:]
				case len(hidden) > 0 && hidden[0].Chain.ID == all[i].ID:
					if h := &hidden[0]; (h.Why == tick.HiddenSilenced) != (h.Silence.What != "") {
						t.Errorf("%s: %+v", h.Chain.ID, h.Silence)
					}
					got, hidden = append(got, string(hidden[0].Why)), hidden[1:]
				}
			}
			if s := strings.Join(got, " "); s != tt.want || len(shown)+len(hidden) > 0 {
				t.Errorf("%s and %d more, want %s", s, len(shown)+len(hidden), tt.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for what, want := range map[string]string{
		"c-7f3a12bc": "", "cpu-taken": "", "cpu-taken@stress-ng": "", "disk-wait@disk 254:0": "",
		"":            "nor one of the rules cpu-throttled,",
		"cpu-tken":    `"cpu-tken" is neither a chain ID`,
		"c-xyz":       "is neither a chain ID",
		"nope@stress": `"nope" is neither a chain ID`,
		"cpu-taken@":  "has no culprit",
	} {
		err := Check(what)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", what, err, want)
		}
	}
}

// A rule is found by the name that it had in 0.9.
func TestOldName(t *testing.T) {
	all := []tick.Chain{chain("c-1", "graph-warmup", "stress", tick.Medium)}
	for _, f := range []Filter{
		{Off: []string{causal.OldName}},
		{Silences: []tick.Silence{{What: causal.OldName, Until: now.Add(1)}}},
		{Silences: []tick.Silence{{What: causal.OldName + "@stress", Until: now.Add(1)}}},
	} {
		if shown, hidden := f.Split(all, now); len(shown) != 0 || len(hidden) != 1 {
			t.Errorf("%+v shows %v", f, shown)
		}
	}
	if err := Check(causal.OldName); err != nil {
		t.Error(err)
	}
}
