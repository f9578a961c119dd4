//go:build interop

package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
)

// The panels for graphs, faults and memory show the data of the database.
func TestPageShowsAJob(t *testing.T) {
	browser := testkit.Chromium(t)
	db := jobDB(t)
	s := serveBy(t, "dashboard", db, time.Now, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "")
	r := readDB(t, db)
	p.showsGraphs(r)
	p.showsFaults(r)
	p.showsMemory(r)
	p.unharmed()
}

// The panel for requests has the requests and the metrics of servers, in a report too. Without any
// there is no panel.
func TestPageShowsRequests(t *testing.T) {
	browser := testkit.Chromium(t)
	db := servedDB(t)
	s := serveBy(t, "dashboard", db, atTheEnd, nil, "--addr", ":0")
	file := filepath.Join(t.TempDir(), "report.html")
	if code, _, stderr := command(t, atTheEnd, nil, "report", "--db", db, "-o", file); code != 0 {
		t.Fatal(stderr)
	}
	for _, home := range []string{s.url + "/", "file://" + file} {
		browser.Do(`await page.goto("about:blank"); seen.requests.splice(0);`, nil, nil)
		p := show(t, browser, home, "")
		p.Do(`await page.waitForSelector("#requests .parts");`, nil, nil)
		rows := p.rows("Requests by server")
		if len(rows) != 1 || rows[0]["server"] != "train.py (4821)" || rows[0]["requests"] != "4" || rows[0]["engine"] != "vLLM Qwen/Qwen2.5-7B" || rows[0]["failed"] != "0" {
			t.Errorf("%s: servers: %v", home, rows)
		}
		p.near("p50", rows[0]["first byte p50"], 40e6)
		p.near("between events", rows[0]["between events p50"], 10e6)
		rows = p.rows("Metrics of servers")
		if len(rows) != 1 || rows[0]["running"] != "3" || rows[0]["waiting"] != "1" || rows[0]["KV cache"] != "50.0 %" || rows[0]["preemptions"] != "–" {
			t.Errorf("%s: metrics: %v", home, rows)
		}
		p.Do(`await page.click("#requests details.behind summary");`, nil, nil)
		if rows = p.rows("Slowest requests"); len(rows) != 4 {
			t.Errorf("%s: slowest: %v", home, rows)
		} else {
			p.near("the slowest", rows[0]["first byte"], 80e6)
		}
		var got struct{ Bar, Section string }
		p.Do(`await page.keyboard.press("r"); await until(() => document.activeElement?.id === "requests");
			return { Bar: await page.getAttribute("#requests .parts", "aria-label"), Section: await page.innerText(".toc a") };`, nil, &got)
		if got.Section != "Requests" || !strings.Contains(got.Bar, "until the server read the request ") {
			t.Errorf("%s: %+v", home, got)
		}
		p.unharmed()
	}
	s = serveBy(t, "dashboard", testDB(t), atTheEnd, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "")
	var panels int
	if p.Do(`return await page.evaluate(() => document.querySelectorAll("#requests, .toc a[href='#requests']").length);`, nil, &panels); panels != 0 {
		t.Errorf("a panel without requests: %d", panels)
	}
}

// showsGraphs checks both tables of CUDA graphs.
func (p *pageOf) showsGraphs(r *query.Reader) {
	p.t.Helper()
	stats, _, err := r.OpStats(p.t.Context(), query.Filter{}, query.Group{})
	if err != nil {
		p.t.Fatal(err)
	}
	rows := p.rows("CUDA graph operations")
	shown := 0
	for i := range stats {
		x := &stats[i]
		at := slices.IndexFunc(rows, func(row map[string]string) bool { return row["operation"] == x.Op.String() })
		if at < 0 {
			if strings.Contains(x.Op.String(), "raph") && x.Op.String() != "cudaGraphDestroy" {
				p.t.Errorf("no row of %s among %v", x.Op, rows)
			}
			continue
		}
		shown++
		name := x.Op.String()
		p.near(name+" calls", rows[at]["calls"], float64(x.Sum.Calls))
		if x.Sum.Done > 0 {
			p.near(name+" total", rows[at]["total"], float64(x.Sum.Total))
			p.near(name+" p99", rows[at]["p99"], float64(x.Dur.Quantile(0.99)))
		}
	}
	if shown != len(rows) || shown == 0 {
		p.t.Errorf("%d rows of operations, of which %d are in the database", len(rows), shown)
	}
	res, err := r.SQL(p.t.Context(), "SELECT exec, launches FROM graphs", query.SQLLimits{})
	if err != nil {
		p.t.Fatal(err)
	}
	graphs := p.rows("Graphs")
	if len(graphs) != len(res.Rows) || len(graphs) == 0 {
		p.t.Fatalf("%d graphs, want %d", len(graphs), len(res.Rows))
	}
	launches := map[string]float64{}
	for _, row := range graphs {
		launches[row["exec"]] = parseFigure(p.t, row["launches"])
	}
	for _, row := range res.Rows {
		if exec := fmt.Sprintf("%#x", row[0]); launches[exec] != float64(row[1].(int64)) {
			p.t.Errorf("graph %s: %v launches, want %v; shown are %v", exec, launches[exec], row[1], graphs)
		}
	}
}

// showsFaults checks the table of XIDs.
func (p *pageOf) showsFaults(r *query.Reader) {
	p.t.Helper()
	res, err := r.SQL(p.t.Context(), "SELECT code, bus, pid, msg FROM xids ORDER BY time_ns", query.SQLLimits{})
	if err != nil {
		p.t.Fatal(err)
	}
	rows := p.rows("GPU faults (XIDs)")
	if len(rows) != len(res.Rows) || len(rows) == 0 {
		p.t.Fatalf("%d faults, want %d", len(rows), len(res.Rows))
	}
	for i, want := range res.Rows {
		row := rows[i]
		if row["XID"] != fmt.Sprint(want[0]) || row["GPU"] != fmt.Sprint(want[1]) || !strings.HasSuffix(row["process"], fmt.Sprintf("(%v)", want[2])) || row["message"] != strings.TrimSpace(fmt.Sprint(want[3])) {
			p.t.Errorf("the page says %v, want %v", row, want)
		}
	}
}

// For ranks recorded on separate nodes and merged, the page shows which came last, how often, and
// by how much.
func TestPageShowsRanks(t *testing.T) {
	browser := testkit.Chromium(t)
	const late, every = 5 * time.Millisecond, 4
	at := time.Now().Add(-10 * time.Second)
	args := []string{"merge"}
	for rank := range 3 {
		r := rankRecording{node: fmt.Sprintf("gpu-%d", rank), rank: int32(rank), ranks: 4, at: at, collectives: 400}
		if rank == 2 {
			r.late = func(i int) time.Duration { return time.Duration(i%every/(every-1)) * late }
		}
		args = append(args, r.make(t))
	}
	db := filepath.Join(t.TempDir(), "all.db")
	if code, _, stderr := command(t, nil, nil, append(args, "-o", db)...); code != 0 {
		t.Fatal(stderr)
	}
	s := serveBy(t, "dashboard", db, time.Now, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "?since=1h")
	rows := p.rows("Ranks")
	if len(rows) != 3 {
		t.Fatalf("%d ranks, want 3: %v", len(rows), rows)
	}
	for _, row := range rows {
		if row["last entered"] != "ncclAllReduce #400" || row["behind"] != "0" {
			t.Errorf("got %v", row)
		}
		if !strings.HasPrefix(row["rank"], "rank 2 ") {
			p.near(row["rank"]+" late", row["late, total"], 0)
			continue
		}
		p.near("came last", row["came last"], 400/every)
		p.near("late, total", row["late, total"], float64(400/every*late))
		p.near("late, max", row["late, max"], float64(late))
	}
	if text := p.text("#nccl"); !strings.Contains(text, "Not in this recording: rank 3.") {
		t.Errorf("of the rank that is not there it says %q", text)
	}
	p.unharmed()
}

// endOf returns a clock that stands right after a recording's end.
func endOf(t *testing.T, db string) func() time.Time {
	t.Helper()
	s, err := readDB(t, db).Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return func() time.Time { return s.Updated.Add(time.Second) }
}

// The fleet panel shows the findings of each node in the last hour by its own clock, its clock
// skew, and which node does not answer.
func TestPageShowsTheFleet(t *testing.T) {
	browser := testkit.Chromium(t)
	sick, torch := incidentDB(t), jobDB(t)
	now, there := endOf(t, sick), endOf(t, torch)
	a := serveBy(t, "dashboard", sick, now, nil, "--addr", ":0", "--node", "gpu-a")
	b := serveBy(t, "dashboard", torch, there, nil, "--addr", ":0", "--node", "gpu-b")
	nodes := []string{strings.TrimPrefix(a.url, "https://"), strings.TrimPrefix(b.url, "https://"), "127.0.0.1:1"}
	home := serveBy(t, "dashboard", sick, now, map[string]string{"INGERO_NODES": strings.Join(nodes, ","), "INGERO_PIN": a.fingerprint + "," + b.fingerprint}, "--addr", ":0")
	p := show(t, browser, home.url+"/", "")
	rows := p.rows("Machines")
	if len(rows) != 3 {
		t.Fatalf("%d machines, want 3: %v", len(rows), rows)
	}
	for _, row := range rows {
		switch {
		case strings.HasPrefix(row["machine"], "gpu-a"):
			p.showsGravest(row, sick, "0")
		case strings.HasPrefix(row["machine"], "gpu-b"):
			p.showsGravest(row, torch, "1")
			off, _, _ := strings.Cut(row["clock ahead"], " ±")
			p.near("clock ahead", off, float64(there().Sub(now())))
		case row["machine"] == nodes[2]:
			if row["state"] != "no answer" || row["causes"] != "–" || row["faults"] != "–" || !strings.Contains(row["most severe cause"], "refused the connection") {
				t.Errorf("got %v, want no answer", row)
			}
		default:
			t.Errorf("a machine that nobody named: %v", row)
		}
	}
	p.unharmed()
}

// showsGravest checks a node's most severe cause against its database.
func (p *pageOf) showsGravest(row map[string]string, db, faults string) {
	p.t.Helper()
	chains, err := readDB(p.t, db).Chains(p.t.Context(), query.Filter{})
	if err != nil || len(chains) == 0 {
		p.t.Fatalf("%d chains: %v", len(chains), err)
	}
	c := &chains[0]
	if row["state"] != c.Severity.String() || row["causes"] != strconv.Itoa(len(chains)) || row["faults"] != faults || !strings.Contains(row["most severe cause"], fmt.Sprintf("(%d)", c.PID)) {
		p.t.Errorf("got %v, want %d causes, the gravest %s of %d, and %s faults", row, len(chains), c.Severity, c.PID, faults)
	}
	p.near("lost", row["lost"], float64(c.Lost))
}
