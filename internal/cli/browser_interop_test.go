//go:build interop

package cli

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
)

// pageOf is the dashboard's page in a browser.
type pageOf struct {
	*testkit.ChromiumPage
	t    *testing.T
	home string // URL of the page
}

// settled waits until no part of the page waits for an answer.
const settled = `await until(() => document.querySelector("#capabilities") && !document.querySelector("[aria-busy=true]"));`

// show opens the page and waits for its answers.
func show(t *testing.T, p *testkit.ChromiumPage, home, search string) *pageOf {
	t.Helper()
	x := &pageOf{p, t, home}
	x.Do(`await page.goto(args);`+settled, home+search, nil)
	return x
}

// rows returns the rows of the table with a caption, by column name.
func (p *pageOf) rows(caption string) (out []map[string]string) {
	p.t.Helper()
	p.Do(settled+`return await page.evaluate((caption) => {
		const t = [...document.querySelectorAll("table")].find((t) => t.caption?.textContent === caption);
		if (!t) return [];
		const names = [...t.tHead.rows[0].cells].map((c) => c.textContent.replace(/ [▾▴]$/, ""));
		return [...t.tBodies].flatMap((b) => [...b.rows]).filter((r) => r.cells.length === names.length)
			.map((r) => Object.fromEntries([...r.cells].map((c, i) => [names[i], c.textContent.trim()])));
	}, args);`, caption, &out)
	return out
}

// text returns the text of an element.
func (p *pageOf) text(selector string) (out string) {
	p.t.Helper()
	p.Do(`return await page.locator(args).first().innerText();`, selector, &out)
	return out
}

// address returns the query of the page's URL.
func (p *pageOf) address() url.Values {
	p.t.Helper()
	var text string
	p.Do(`return page.url();`, nil, &text)
	u, err := url.Parse(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Query()
}

// unharmed checks that the page logged no errors, sent no requests to other hosts, and is
// accessible.
func (p *pageOf) unharmed() {
	p.t.Helper()
	var seen struct{ Requests, Failures, Console []string }
	p.Do(`return seen;`, nil, &seen)
	if len(seen.Console) > 0 || len(seen.Failures) > 0 {
		p.t.Errorf("the page complains: %q, %q", seen.Console, seen.Failures)
	}
	for _, r := range seen.Requests {
		if !strings.HasPrefix(r, p.home) && !strings.HasPrefix(r, "data:") {
			p.t.Errorf("it asks another host: %s", r)
		}
	}
	var wrong []string
	p.Do(`return axe();`, nil, &wrong)
	for _, w := range wrong {
		p.t.Errorf("not for everybody: %s", w)
	}
}

var figure = regexp.MustCompile(`^(-?[0-9][0-9,.]*) ?(ns|us|ms|s|min|h|B|KiB|MiB|GiB|TiB)?$`)

// parseFigure parses a figure of the page: in ns, bytes or without a unit.
func parseFigure(t *testing.T, text string) float64 {
	t.Helper()
	m := figure.FindStringSubmatch(text)
	if m == nil {
		t.Errorf("%q is no figure", text)
		return math.NaN()
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
	unit := map[string]float64{"us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[m[2]]
	return v * max(unit, 1)
}

// near checks a figure of the page, which has three digits.
func (p *pageOf) near(what, shown string, want float64) {
	p.t.Helper()
	if got := parseFigure(p.t, shown); math.Abs(got-want) > math.Abs(want)*0.006+0.5 {
		p.t.Errorf("%s: the page says %s, and it is %.4g", what, shown, want)
	}
}

// showsOps checks the table of calls against the recordings of a window; zero times are no
// bound. It returns the number of rows.
func (p *pageOf) showsOps(r *query.Reader, f query.Filter) int {
	p.t.Helper()
	stats, _, err := r.OpStats(p.t.Context(), f, query.Group{PID: true})
	if err != nil {
		p.t.Fatal(err)
	}
	rows := p.rows("Calls by operation")
	if len(rows) != len(stats) || len(rows) == 0 {
		p.t.Errorf("%d rows of calls, want %d", len(rows), len(stats))
	}
	for i := range stats {
		s := &stats[i]
		at := slices.IndexFunc(rows, func(x map[string]string) bool {
			return x["operation"] == s.Op.String() && (x["process"] == "" || strings.HasSuffix(x["process"], "("+strconv.Itoa(int(s.PID))+")"))
		})
		if at < 0 {
			p.t.Errorf("no row of %s of process %d", s.Op, s.PID)
			continue
		}
		row, name := rows[at], s.Op.String()
		p.near(name+" calls", row["calls"], float64(s.Sum.Calls))
		p.near(name+" failed", row["failed"], float64(s.Sum.Errors))
		if s.Sum.Done == 0 {
			continue
		}
		p.near(name+" total", row["total"], float64(s.Sum.Total))
		p.near(name+" p50", row["p50"], float64(s.Dur.Quantile(0.5)))
		p.near(name+" p99", row["p99"], float64(s.Dur.Quantile(0.99)))
		p.near(name+" max", row["max"], float64(s.Dur.Max()))
	}
	return len(rows)
}

// showsTimeline waits until the times of each process are those of its accounts in the recording: when
// a recording ends, the page may still show its times of a moment before.
func (p *pageOf) showsTimeline(r *query.Reader) {
	p.t.Helper()
	accounts, err := r.Accounts(p.t.Context(), query.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	want := map[uint32]map[string]uint64{}
	for i := range accounts {
		x := &accounts[i]
		want[x.PID] = map[string]uint64{"GPU wait": x.GPUWait, "CPU in calls": x.CallCPU, "CPU between calls": x.GapCPU, "Runnable, waiting": x.Runnable, "Blocked": x.Blocked}
	}
	var wrong []string
	defer func() {
		if p.t.Failed() {
			p.t.Log(strings.Join(wrong, "\n"))
		}
	}()
	testkit.Eventually(p.t, "the page to show the times of the recording", func() bool {
		wrong = p.timesOtherThan(want)
		return len(wrong) == 0
	})
}

// timesOtherThan returns the times that the page shows and that differ from a process's accounts.
func (p *pageOf) timesOtherThan(want map[uint32]map[string]uint64) (wrong []string) {
	p.t.Helper()
	got := map[uint32]map[string]float64{}
	for _, row := range p.rows("Where the time went") {
		m := regexp.MustCompile(`\((\d+)\)$`).FindStringSubmatch(row["who"])
		if m == nil {
			p.t.Fatalf("a row of %q", row["who"])
		}
		pid, _ := strconv.Atoi(m[1])
		if got[uint32(pid)] == nil {
			got[uint32(pid)] = map[string]float64{}
		}
		got[uint32(pid)][row["kind"]] += parseFigure(p.t, row["time"])
	}
	if len(want) == 0 || len(got) != len(want) {
		wrong = append(wrong, fmt.Sprintf("the time of %d processes, want %d", len(got), len(want)))
	}
	for pid, kinds := range want {
		for kind, ns := range kinds {
			if v := got[pid][kind]; math.Abs(v-float64(ns)) > float64(ns)/100+1e6 { // sums of three-digit figures
				wrong = append(wrong, fmt.Sprintf("process %d, %s: the page says %.4g s, and it is %.4g s", pid, kind, v/1e9, float64(ns)/1e9))
			}
		}
	}
	return wrong
}

// showsChains checks the list of causes.
func (p *pageOf) showsChains(r *query.Reader) {
	p.t.Helper()
	chains, err := r.Chains(p.t.Context(), query.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	var heads []struct{ Severity, Lost string }
	p.Do(`return await page.$$eval("#headline .cards > li", (all) => all.map((c) => ({ Severity: c.querySelector(".sev").textContent, Lost: c.querySelector(".lost").textContent })));`, nil, &heads)
	if len(heads) != len(chains) || len(chains) == 0 {
		p.t.Fatalf("%d causes, want %d", len(heads), len(chains))
	}
	for i := range chains {
		lost, _, _ := strings.Cut(heads[i].Lost, " lost")
		p.near("lost by "+chains[i].ID, lost, float64(chains[i].Lost))
		if heads[i].Severity != chains[i].Severity.String() {
			p.t.Errorf("cause %d is %q, want %s", i, heads[i].Severity, chains[i].Severity)
		}
	}
}

// showsCode checks the flame graph: each process's time in calls with stacks.
func (p *pageOf) showsCode(r *query.Reader) {
	p.t.Helper()
	sums, _, _, err := r.StackSums(p.t.Context(), query.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	want := map[string]float64{}
	for i := range sums {
		want[strconv.Itoa(int(sums[i].PID))] += float64(sums[i].Wall)
	}
	var labels []string
	p.Do(`return await page.$$eval("#code [role=treeitem][aria-level='2']", (all) => all.map((e) => e.ariaLabel));`, nil, &labels)
	for _, label := range labels {
		m := regexp.MustCompile(`\((\d+)\), (.*), [^,]*$`).FindStringSubmatch(label)
		if m == nil {
			p.t.Fatalf("a frame of %q", label)
		}
		p.near("time in calls of "+m[1], m[2], want[m[1]])
		delete(want, m[1])
	}
	if len(want) > 0 {
		p.t.Errorf("frames %q; without: %v", labels, want)
	}
}

// showsHeat checks the figures of the heat maps, and that their cells cover all calls.
func (p *pageOf) showsHeat(r *query.Reader) {
	p.t.Helper()
	stats, _, err := r.OpStats(p.t.Context(), query.Filter{}, query.Group{})
	if err != nil {
		p.t.Fatal(err)
	}
	var labels []string
	p.Do(`return await page.$$eval("#latency canvas[role=img]", (all) => all.map((c) => c.ariaLabel));`, nil, &labels)
	if len(labels) == 0 {
		p.t.Error("there is no heat map")
	}
	for _, label := range labels {
		m := regexp.MustCompile(`^(\S+): (\S+) calls, p50 (.*), p99 (.*), longest (.*)$`).FindStringSubmatch(label)
		if m == nil {
			p.t.Fatalf("a heat map of %q", label)
		}
		i := slices.IndexFunc(stats, func(s query.OpStat) bool { return s.Op.String() == m[1] })
		p.near(m[1]+" calls in the heat map", m[2], float64(stats[i].Sum.Calls))
		p.near(m[1]+" p50", m[3], float64(stats[i].Dur.Quantile(0.5)))
		p.near(m[1]+" p99", m[4], float64(stats[i].Dur.Quantile(0.99)))
		p.near(m[1]+" longest", m[5], float64(stats[i].Dur.Max()))
	}
}

// showsMemory checks the peak memory of each process.
func (p *pageOf) showsMemory(r *query.Reader) {
	p.t.Helper()
	peak := map[string]int64{}
	if err := r.MemoryLevels(p.t.Context(), query.Filter{}, func(x *query.MemoryLevel) error {
		pid := strconv.Itoa(int(x.PID))
		peak[pid] = max(peak[pid], x.GPU)
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
	rows := p.rows("GPU memory by process")
	for _, row := range rows {
		m := regexp.MustCompile(`\((\d+)\)$`).FindStringSubmatch(row["process"])
		p.near("peak of "+m[1], row["peak"], float64(peak[m[1]]))
	}
	if len(rows) != len(peak) {
		p.t.Errorf("the memory of %d processes, want %d", len(rows), len(peak))
	}
}

// readDB opens a database to compare with the page.
func readDB(t *testing.T, db string) *query.Reader {
	t.Helper()
	r, err := query.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// timeOf parses a time of the page's URL.
func timeOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
