package govern

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// costs are the costs of a second of load, by part, without shedding. Each step saves seven eighths
// of the rest of its part.
type costs struct {
	parts [NumParts]float64
	fixed float64 // not reduced by any step
	agent float64 // of the agent, not reduced by any step either
	hot   float64 // of probes that only hot-off detaches
	calls uint64
}

func (c costs) load(taken []int) *Load {
	l := &Load{Share: c.fixed + c.agent, Agent: c.agent, Parts: c.parts, Calls: c.calls}
	for _, i := range taken {
		if p := Steps[i].Part; p == AllStacks {
			l.Parts[CallStacks] /= 8
		} else {
			l.Parts[p] /= 8
		}
	}
	if slices.ContainsFunc(taken, func(i int) bool { return Steps[i].Part == Hot }) {
		l.Parts[Launches], l.Parts[Calls], l.Calls = 0, 0, 0
	} else {
		l.Parts[Hot] = l.Parts[Launches] + l.Parts[Calls] + c.hot
		l.Share += c.hot
	}
	for p, share := range l.Parts {
		if Part(p) != Hot { // overlaps others, as AllStacks does
			l.Share += share
		}
		if Part(p) == Records {
			l.Agent += share
		}
	}
	l.Parts[AllStacks] = l.Parts[CallStacks]
	return l
}

// play runs some seconds and returns the changes with their times: "+stacks-rare@2".
func play(b *Budget, seconds int, at func(second int) costs) string {
	start := time.Unix(1000, 0)
	var out []string
	for s := 1; s <= seconds; s++ {
		c, any := b.Tick(start.Add(time.Duration(s)*time.Second), time.Second, at(s).load(b.Taken()))
		if !any {
			continue
		}
		sign := "-"
		if c.Taken {
			sign = "+"
		}
		out = append(out, fmt.Sprintf("%s%s@%d", sign, Steps[c.Step].Name, s))
	}
	return strings.Join(out, " ")
}

var (
	idle     = costs{fixed: 0.003}
	flood    = costs{parts: [NumParts]float64{0.5, 0.5, 0.5, 0.5, 0, 0.5}, fixed: 0.003, calls: 1e6}
	launches = costs{parts: [NumParts]float64{0.0005, 0.0005, 0.04, 0, 0, 0}, fixed: 0.003, calls: 20_000}
)

func always(c costs) func(int) costs { return func(int) costs { return c } }

// until returns one load up to a second, and another afterwards.
func until(second int, c, then costs) func(int) costs {
	return func(s int) costs {
		if s <= second {
			return c
		}
		return then
	}
}

// Forced steps are activated one after the other and stay active, except those with nothing to
// shed.
func TestForcedSteps(t *testing.T) {
	python, thin, hot := StepNamed("python-off"), StepNamed("records-thin"), StepNamed("hot-off")
	b := &Budget{Share: 0.02, Forced: []int{python, thin, hot}}
	for i, want := range [][]int{{thin}, {thin, hot}, {thin, hot}, {thin, hot}} {
		load := launches.load(b.Taken())
		load.Lacks = func(step int) bool { return step == python }
		b.Tick(time.Unix(int64(1000+i), 0), time.Second, load)
		if got := b.Taken(); !slices.Equal(got, want) {
			t.Errorf("in tick %d: %v are taken, want %v", i+1, got, want)
		}
	}
}

func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name    string
		share   float64
		seconds int
		at      func(int) costs
		want    string
	}{
		{"idle", 0.02, 600, always(idle), ""},
		{"no budget", 0, 60, always(flood), ""},
		{"at the budget", 0.02, 600, always(costs{fixed: 0.02, calls: 1000}), ""},
		{"a second of too much", 0.02, 60, until(1, launches, idle), ""},
		{"the step that helps most of those in order, and back in the reverse", 0.02, 80, until(20, flood, idle),
			"+stacks-rare@1 +records-thin@2 +launches-counted@3 +records-least@4 +host-off@5 +calls-counted@6 +python-off@7 +hot-off@12 +stacks-off@13 " +
				"-stacks-off@31 -hot-off@34 -python-off@37 -calls-counted@40 -host-off@43 -records-least@46 -launches-counted@49 -records-thin@52 -stacks-rare@55"},
		{"a burst of calls that no step would make cheap", 0.02, 60, until(3, costs{parts: [NumParts]float64{CallStacks: 0.004, Twice: 0.005}, fixed: 0.12, calls: 8000}, idle), ""},
		{"a burst of calls that only the last step would make cheap", 0.02, 60, until(4, costs{parts: [NumParts]float64{CallStacks: 0.004, Launches: 0.005, Calls: 0.1}, fixed: 0.003, calls: 8000}, idle), "+calls-counted@1 +stacks-rare@3 -stacks-rare@15 -calls-counted@18"},
		{"a load that pauses each fifth second", 0.02, 24, func(s int) costs {
			if s%5 == 0 {
				return idle
			}
			return costs{parts: [NumParts]float64{Calls: 0.0001, Launches: 0.0001}, fixed: 0.003, calls: 8000, hot: 0.2}
		}, "+hot-off@7 -hot-off@18 +hot-off@19"},
		{"stacks are not shed where they cost little of what exceeds the bound", 0.02, 20, always(costs{parts: [NumParts]float64{CallStacks: 0.0015, Launches: 0.04}, fixed: 0.003, calls: 8000}), "+launches-counted@2"},
		{"launches that are probed twice", 0.02, 60, always(costs{parts: [NumParts]float64{Launches: 0.01, Twice: 0.02}, fixed: 0.003, calls: 15_000}), "+launches-once@2"},
		{"only what is costly", 0.02, 60, always(launches), "+launches-counted@2"},
		{"nothing that helps", 0.02, 600, always(costs{fixed: 0.5, parts: [NumParts]float64{0.0005, 0.0005}}), ""},
		{"an agent that is costly by itself: no call is left out for it", 0.02, 600,
			always(costs{agent: 0.05, parts: [NumParts]float64{0.001, 0.006, 0.004, 0.002, 0, 0.001}, calls: 4000}), ""},
		{"an agent that has much to read", 0.02, 600, always(costs{agent: 0.015, parts: [NumParts]float64{0.001, 0.02, 0.004, 0.002, 0, 0.001}, calls: 40_000}), "+records-thin@2"},
		{"an agent that had much to read", 0.02, 60, until(20, costs{agent: 0.03, parts: [NumParts]float64{0, 0.02}, calls: 40_000}, costs{agent: 0.03, parts: [NumParts]float64{0, 0.001}, calls: 2000}),
			"+records-thin@2 -records-thin@31"},
		{"what would come back is too costly", 0.02, 600, until(20, launches, costs{parts: [NumParts]float64{0, 0, 0.014, 0, 0, 0}, fixed: 0.003, calls: 7000}),
			"+launches-counted@2"},
		{"less load", 0.02, 100, until(20, launches, costs{parts: [NumParts]float64{0, 0, 0.004, 0, 0, 0}, fixed: 0.003, calls: 2000}),
			"+launches-counted@2 -launches-counted@31"},
		{"a pulse each 15 s takes longer and longer to be forgiven", 0.02, 240, func(s int) costs {
			if s%15 < 3 {
				return launches
			}
			return idle
		}, "+launches-counted@2 -launches-counted@13 +launches-counted@16"},
		{"calls that are always costly are tried more and more rarely", 0.02, 1500, always(costs{parts: [NumParts]float64{Launches: 0.4}, fixed: 0.003, calls: 80_000}),
			"+launches-counted@1 +hot-off@6 -hot-off@17 +hot-off@19 -hot-off@40 +hot-off@42 -hot-off@83 +hot-off@85 -hot-off@166 +hot-off@168 " +
				"-hot-off@329 +hot-off@331 -hot-off@632 +hot-off@634 -hot-off@935 +hot-off@937 -hot-off@1238 +hot-off@1240"},
		{"a step waits from its own start", 0.02, 60, func(s int) costs {
			switch {
			case s < 20 && s%15 < 3:
				return launches
			case s == 30:
				return costs{parts: [NumParts]float64{Host: 0.08}, fixed: 0.003}
			}
			return idle
		}, "+launches-counted@2 -launches-counted@13 +launches-counted@16 +host-off@30 -host-off@41 -launches-counted@44"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(&Budget{Share: tt.share}, tt.seconds, tt.at); got != tt.want {
				t.Errorf("changed\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// While hot-off is active, operations that it has not shed yet activate it again. Without such
// operations, nothing is left to shed. It is reverted once.
func TestBudgetHotAgain(t *testing.T) {
	b := &Budget{Share: 0.02}
	hot := StepNamed("hot-off")
	more := map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 10: true, 11: true} // seconds with costly operations that have probes
	var got []string
	for s := 1; s <= 40; s++ {
		load := &Load{Share: 0.003, Calls: 10}
		if s <= 15 {
			load.Share, load.Parts[Hot], load.Calls = 0.04, 0.04, 1000
		}
		load.Lacks = func(step int) bool { return step == hot && !more[s] }
		if c, any := b.Tick(time.Unix(int64(s), 0), time.Second, load); any {
			got = append(got, fmt.Sprintf("%s %v@%d", Steps[c.Step].Name, c.Taken, s))
		}
		if want := s >= 7 && s <= 9 || s >= 13 && s <= 15; b.Exhausted() != want {
			t.Errorf("second %d: exhausted is %v", s, !want)
		}
	}
	if want := []string{"hot-off true@5", "hot-off true@11", "hot-off false@26"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
}

// While probes are attached or detached, nothing is decided and no time counts: figures of a part of a
// tick neither end a trial of hot-off, nor revert the step before it.
func TestBudgetPartialWindows(t *testing.T) {
	calls, hot := StepNamed("calls-counted"), StepNamed("hot-off")
	costly := Load{Share: 0.05, Calls: 50_000, Parts: [NumParts]float64{Calls: 0.05, Hot: 0.05}}
	urgent := Load{Share: 0.2, Calls: 50_000, Parts: [NumParts]float64{Hot: 0.2}}
	quiet := Load{Calls: 10}
	for _, tt := range []struct {
		name    string
		partial Load // in each of the ticks until the probes are attached
		want    string
	}{
		{"few calls seen", quiet, "+calls-counted@2 +hot-off@7 -hot-off@18 +hot-off@29"},
		{"many calls seen", urgent, "+calls-counted@2 +hot-off@7 -hot-off@18 +hot-off@29"},
	} {
		b := &Budget{Share: 0.02}
		var got []string
		for s := 1; s <= 33; s++ {
			load := costly
			switch held := b.Taken(); {
			case slices.Contains(held, hot):
				load = quiet
			case s > 18 && s <= 27:
				load = tt.partial
				load.Partial = true
			}
			load.Lacks = func(step int) bool { return step != calls && step != hot }
			if c, any := b.Tick(time.Unix(int64(s), 0), time.Second, &load); any {
				sign := map[bool]string{true: "+", false: "-"}[c.Taken]
				got = append(got, fmt.Sprintf("%s%s@%d", sign, Steps[c.Step].Name, s))
			}
			if b.Exhausted() {
				t.Errorf("%s, second %d: exhausted", tt.name, s)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: changes\n%s, want\n%s", tt.name, got, tt.want)
		}
	}
}

// If the traced threads pay too much and no step helps, the budget is exhausted after two ticks.
// The agent's own cost does not count.
func TestBudgetExhausted(t *testing.T) {
	costly, agent := costs{fixed: 0.5}, costs{agent: 0.5}
	for _, tt := range []struct {
		name string
		at   []costs
		want bool
	}{
		{"once", []costs{costly}, false},
		{"twice", []costs{costly, costly}, true},
		{"with a pause", []costs{costly, idle, costly}, false},
		{"over", []costs{costly, costly, idle}, false},
		{"a step helps", []costs{launches, launches, launches}, false},
		{"the agent", []costs{agent, agent, agent}, false},
	} {
		b := &Budget{Share: 0.02}
		play(b, len(tt.at), func(s int) costs { return tt.at[s-1] })
		if got := b.Exhausted(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Under constant load, reverts are rare and become rarer.
func TestBudgetDoesNotFlap(t *testing.T) {
	b := Budget{Share: 0.02}
	got := strings.Fields(play(&b, 3600, always(flood)))
	n := 0
	for _, c := range got {
		if strings.HasPrefix(c, "-") {
			n++
		}
	}
	if n > 20 {
		t.Errorf("%d steps taken back in an hour of overload, want at most 20: %v", n, got)
	}
}

// Steps that are not possible here are skipped.
func TestBudgetLacks(t *testing.T) {
	b := Budget{Share: 0.02}
	l := flood.load(nil)
	l.Lacks = func(step int) bool { return step < 3 }
	if c, any := b.Tick(time.Unix(1, 0), time.Second, l); !any || Steps[c.Step].Name != "python-off" {
		t.Errorf("first step: %+v, %v", c, any)
	}
}

// Invalid figures decide nothing.
func TestBudgetBadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		share, load float64
		window      time.Duration
	}{
		"no number":         {0.02, math.NaN(), time.Second},
		"less than nothing": {0.02, -1, time.Second},
		"without end":       {0.02, math.Inf(1), time.Second},
		"a short window":    {0.02, 1, time.Millisecond},
		"no window":         {0.02, 1, 0},
		"a clock set back":  {0.02, 1, -time.Second},
		"a budget of none":  {math.NaN(), 1, time.Second},
		"a negative budget": {-0.02, 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := Budget{Share: tt.share}
			for s := range 10 {
				l := flood.load(nil)
				l.Share = tt.load
				if c, any := b.Tick(time.Unix(int64(s), 0), tt.window, l); any {
					t.Fatalf("changed %+v", c)
				}
			}
		})
	}
}

// Every step has a unique name, an effect and a cost.
func TestSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Steps {
		if s.Name == "" || seen[s.Name] || s.Does == "" || s.Cost == "" || s.Part >= NumParts {
			t.Errorf("step %+v", s)
		}
		seen[s.Name] = true
	}
}

// The overhead page lists each step, in order and with the same words.
func TestStepsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/overhead.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- steps -->\n")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	want := "| step | effect | affected results |\n|---|---|---|\n"
	for _, s := range Steps {
		want += fmt.Sprintf("| `%s` | %s | %s |\n", s.Name, s.Does, s.Cost)
	}
	if table != want {
		t.Errorf("the table of docs/design/overhead.md is\n%s, want\n%s", table, want)
	}
}
