package causal

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// check compares chains with an "expect" line.
func check(t *testing.T, sc *scenario, got []tick.Chain, untold []tick.BlindSpot, f []string) {
	switch f[0] {
	case "untold":
		if !slices.ContainsFunc(untold, func(u tick.BlindSpot) bool { return u.Step == f[2] && slices.Contains(u.Rules, f[1]) }) {
			t.Errorf("that %s cannot be found since %s is not reported: %+v", f[1], f[2], untold)
		}
		return
	case "silence":
		if len(got) != 0 {
			t.Errorf("%d chains, want none", len(got))
		}
		return
	case "chains":
		if n, _ := strconv.Atoi(f[1]); len(got) != n {
			t.Errorf("%d chains, want %d", len(got), n)
		}
		return
	}
	i := slices.IndexFunc(got, func(c tick.Chain) bool { return c.Rule == f[0] })
	if i < 0 {
		t.Errorf("no chain %s", f[0])
		return
	}
	c := &got[i]
	if c.Severity.String() != f[1] {
		t.Errorf("%s is %s, want %s", c.Rule, c.Severity, f[1])
	}
	for _, x := range f[2:] {
		sc.checkOne(t, c, x)
	}
}

// checkConfidence checks a chain's confidence against ">=0.8", "<=0.9" or "=0.5". "<=" is for chains
// that were judged with less data.
func checkConfidence(t *testing.T, c *tick.Chain, want string) {
	at := strings.IndexByte(want, '=')
	v, err := strconv.ParseFloat(want[at+1:], 64)
	is := map[string]bool{">": c.Confidence >= v, "<": c.Confidence <= v && strings.Contains(c.Baseline, "judged with less"), "": c.Confidence == v}
	if ok, known := is[want[:at]]; err != nil || !known || !ok {
		t.Errorf("confidence is %v (%s), want %s", c.Confidence, c.Baseline, want)
	}
}

func (sc *scenario) checkOne(t *testing.T, c *tick.Chain, x string) {
	if v, ok := strings.CutPrefix(x, "who="); ok {
		if got := c.Culprits[0].Thread.Name.String(); got != v {
			t.Errorf("%s is by %q, want %q", c.Rule, got, v)
		}
		return
	}
	if v, ok := strings.CutPrefix(x, "what="); ok {
		if got := strings.ReplaceAll(c.Culprits[0].What, " ", "_"); !strings.HasPrefix(got, v) {
			t.Errorf("%s is by %q, want %q", c.Rule, got, v)
		}
		return
	}
	if v, ok := strings.CutPrefix(x, "beside="); ok {
		if !slices.ContainsFunc(c.Culprits[1:], func(o tick.Culprit) bool { return o.Thread.Name.String() == v }) {
			t.Errorf("%s is not by %q beside the first", c.Rule, v)
		}
		return
	}
	if v, ok := strings.CutPrefix(x, "root="); ok {
		if r := c.Culprits[0].Root; string(r.Whose)+"/"+string(r.Did) != v {
			t.Errorf("%s comes down to %+v, want %s", c.Rule, r, v)
		}
		return
	}
	if v, ok := strings.CutPrefix(x, "conf"); ok {
		checkConfidence(t, c, v)
		return
	}
	if x == "covers" {
		if lost := time.Duration(sc.truth(t)); lost < c.LostMin || lost > c.LostMax {
			t.Errorf("%s lost %v to %v, truly %v", c.Rule, c.LostMin, c.LostMax, lost)
		}
		return
	}
	v, ok := strings.CutPrefix(x, "lost=")
	amount, tolerance, _ := strings.Cut(v, "±")
	pct, err := strconv.ParseFloat(strings.TrimSuffix(tolerance, "%"), 64)
	if !ok || err != nil {
		t.Fatalf("what is %q?", x)
	}
	var want int64
	if amount == "true" {
		want = sc.truth(t)
	} else {
		want = dur(t, amount)
	}
	if d := math.Abs(float64(int64(c.Lost) - want)); d > float64(want)*pct/100 {
		t.Errorf("%s lost %v, want %v ± %v %% (it is %+.1f %%)", c.Rule, c.Lost, time.Duration(want), pct, 100*(float64(c.Lost)/float64(want)-1))
	}
	t.Logf("lost %v, true %v", c.Lost, time.Duration(want))
}

// truth returns how much longer the first program took than without the fault.
func (sc *scenario) truth(t testing.TB) int64 {
	if sc.lost == 0 {
		sc.lost = sc.end - sc.play(t, sc.threads[0], true).now
	}
	return sc.lost
}
