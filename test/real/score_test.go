package real

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/test/scores"
)

// score is the result of a run of a victim.
type score struct {
	Name string `json:"name"`
	Run  int    `json:"run"` // from 1
	scores.Judged
	Said   int64           `json:"said_ms"`
	True   int64           `json:"true_ms"`
	Others int64           `json:"taken_by_others_ms"`
	Right  map[string]bool `json:"right"` // see Verdict.Respects
	False  []string        `json:"false_causes,omitempty"`
}

// Compare orders scores by run.
func (x *score) Compare(y *score) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Run, y.Run))
}

// scoreOf returns the score of a verdict.
func scoreOf(v *Verdict, run int) *score {
	x := &score{Name: v.Victim.Name, Run: run, Judged: scores.Now(), Others: v.Others.Milliseconds(), Right: v.Respects(), False: v.False}
	if len(v.Victim.Rules) > 0 {
		x.Said, x.True = v.Said.Milliseconds(), v.Truth.LostNS/1e6
	}
	return x
}

// count formats the number of runs that are right in a respect, and of those that were judged in it.
func count(runs []*score, respect string) string {
	right, all := 0, 0
	for _, x := range runs {
		if ok, judged := x.Right[respect]; judged {
			all++
			if ok {
				right++
			}
		}
	}
	text := fmt.Sprintf("%d/%d", right, all)
	switch {
	case all == 0:
		return ""
	case right < all:
		return "**" + text + "**"
	}
	return text
}

// valueRange formats the least and the greatest value of some runs.
func valueRange(runs []*score, value func(*score) int64) string {
	least, most := value(runs[0]), value(runs[0])
	for _, x := range runs {
		least, most = min(least, value(x)), max(most, value(x))
	}
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// row formats the runs of a victim, or of all victims, as a row of the table.
func row(name string, runs []*score, lost, others string) string {
	wrong := 0
	for _, x := range runs {
		wrong += len(x.False)
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s | %d |\n", name, len(runs), lost, others,
		count(runs, "cause"), count(runs, "culprit"), count(runs, "lost"), count(runs, "line"), wrong)
}

// table formats all runs in Markdown.
func table(all []*score) string {
	var b, causes strings.Builder
	b.WriteString("| program: fault | runs | lost, ms: said / true | taken by other programs, ms | cause | culprit | lost within 10 % | line | false causes |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	var shown []*score
	healthy, silent := 0, 0
	for i := range Victims {
		v := &Victims[i]
		var runs []*score
		for _, x := range all {
			if x.Name != v.Name {
				continue
			}
			runs = append(runs, x)
			if len(v.Rules) == 0 {
				healthy++
			}
			if len(x.False) > 0 {
				fmt.Fprintf(&causes, "- false causes of %s, run %d: %s\n", x.Name, x.Run, strings.Join(x.False, "; "))
			} else if len(v.Rules) == 0 {
				silent++
			}
		}
		if len(runs) == 0 {
			continue
		}
		lost := ""
		if len(v.Rules) > 0 {
			lost = valueRange(runs, func(x *score) int64 { return x.Said }) + " / " + valueRange(runs, func(x *score) int64 { return x.True })
		}
		b.WriteString(row(v.Name, runs, lost, valueRange(runs, func(x *score) int64 { return x.Others })))
		shown = append(shown, runs...)
	}
	b.WriteString(row("all", shown, "", ""))
	fmt.Fprintf(&b, "\n- runs of healthy programs without a cause: %d/%d\n- runs judged by each version: %s\n", silent, healthy, scores.Versions(shown))
	return b.String() + causes.String()
}

// The table has the sums and the ranges of each victim's runs. What does not apply is not counted.
func TestTable(t *testing.T) {
	fault, healthy := &Victim{Name: "gil: a thread of pure Python", Rules: ofGIL, Line: "python"}, &Victim{Name: "gil: a thread that sleeps"}
	truth := &Truth{LostNS: 1e9}
	var all []*score
	for i, v := range []Verdict{
		{Victim: fault, Truth: truth, Cause: true, InTen: true, Said: 980 * time.Millisecond, Lines: []string{"gil.py:7"}},
		{Victim: fault, Truth: truth, Said: 0, False: []string{"HIGH lock-wait 400 ms"}},
		{Victim: fault, Truth: &Truth{LostNS: 11e8}, Cause: true, Said: 600 * time.Millisecond, Others: 30 * time.Millisecond, Lines: []string{"gil.py:7"}},
		{Victim: healthy, Truth: truth, False: []string{"LOW gil-wait 2 ms"}},
		{Victim: healthy, Truth: truth},
	} {
		x := scoreOf(&v, i+1)
		x.Judged = scores.Judged{Date: "2026-01-02", Commit: "a"}
		all = append(all, x)
	}
	const want = `| program: fault | runs | lost, ms: said / true | taken by other programs, ms | cause | culprit | lost within 10 % | line | false causes |
|---|---|---|---|---|---|---|---|---|
| gil: a thread of pure Python | 3 | 0 to 980 / 1000 to 1100 | 0 to 30 | **2/3** |  | **1/2** | 2/2 | 1 |
| gil: a thread that sleeps | 2 |  | 0 |  |  |  |  | 1 |
| all | 5 |  |  | **2/3** |  | **1/2** | 2/2 | 2 |

- runs of healthy programs without a cause: 1/2
- runs judged by each version: a: 5 (2026-01-02)
- false causes of gil: a thread of pure Python, run 2: HIGH lock-wait 400 ms
- false causes of gil: a thread that sleeps, run 4: LOW gil-wait 2 ms
`
	if got := table(all); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
