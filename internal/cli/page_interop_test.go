//go:build interop

package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Every panel shows the data of the database, over HTTPS, in light and dark mode.
func TestPageShows(t *testing.T) {
	browser := testkit.Chromium(t)
	db := incidentDB(t)
	s := serveBy(t, "dashboard", db, later, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "")
	p.showsAll(readDB(t, db))
	p.unharmed()
	p.Do(`await page.keyboard.press("t"); await until(() => document.documentElement.dataset.theme === "dark");`, nil, nil)
	p.unharmed()
	var ground string
	p.Do(`return await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((v) => v < 90) ? "dark" : "light");`, nil, &ground)
	if ground != "dark" {
		t.Error("it is not dark")
	}
	p.Do(`await page.emulateMedia({ colorScheme: "dark" }); await page.evaluate(() => localStorage.clear()); await page.reload(); await until(() => document.documentElement.dataset.theme === "dark");`, nil, nil)
	p.Do(`await page.fill("#sql-text", "SELECT count(*) AS n, 9007199254740993 AS big FROM events"); await page.focus("#sql-text"); await page.keyboard.press("Control+Enter"); await page.waitForSelector("caption:text-is('Result')", { state: "attached" });`, nil, nil)
	if rows := p.rows("Result"); len(rows) != 1 || rows[0]["big"] != "9007199254740993" || rows[0]["n"] != count(t, db, "events") {
		t.Errorf("SQL gives %v", rows)
	}
	p.Do(`await page.fill("#sql-text", "DELETE FROM sessions"); await page.focus("#sql-text"); await page.keyboard.press("Control+Enter"); await page.waitForSelector("#sql [role=alert]");
		seen.console.splice(0); seen.failures.splice(0);`, nil, nil) // the browser logs the rejection
	if text := p.text("#sql [role=alert]"); !strings.Contains(text, "DELETE cannot be used") {
		t.Errorf("the refusal says %q", text)
	}
	var grey []string
	p.Do(`return await page.$$eval("#capabilities .capabilities > li", (all) => all.map((e) => e.innerText));`, nil, &grey)
	if all := strings.Join(grey, "\n"); len(grey) != 16 || !strings.Contains(all, "DCGM") || !strings.Contains(all, "Nsight Systems") {
		t.Errorf("available data: %q", grey)
	}
}

// showsAll checks all panels with figures of the recording.
func (p *pageOf) showsAll(r *query.Reader) {
	p.t.Helper()
	p.showsChains(r)
	p.showsTimeline(r)
	p.showsOps(r, query.Filter{})
	p.showsHeat(r)
	p.showsCode(r)
	p.showsMemory(r)
}

// count returns the number of rows in a table of a database.
func count(t *testing.T, db, table string) string {
	t.Helper()
	res, err := readDB(t, db).SQL(t.Context(), "SELECT count(*) FROM "+table, query.SQLLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(res.Rows[0][0].(int64), 10)
}

// The selection by mouse, keys and filters is shown and is part of the URL; the back button undoes
// it, and a link restores it for others.
func TestPageFollows(t *testing.T) {
	browser := testkit.Chromium(t)
	db := incidentDB(t)
	s := serveBy(t, "dashboard", db, later, nil, "--addr", ":0")
	r := readDB(t, db)
	p := show(t, browser, s.url+"/", "")
	all := p.showsOps(r, query.Filter{})
	p.Do(`const box = await page.locator("#time .chart .u-over").first().boundingBox();
		await page.mouse.move(box.x + box.width * 0.4, box.y + 20); await page.mouse.down();
		await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 4 }); await page.mouse.up();
		await page.waitForURL(/from=/);`+settled, nil, nil)
	at := p.address()
	f := query.Filter{From: timeOf(t, at.Get("from")), To: timeOf(t, at.Get("to"))}
	whole, err := r.Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if length, of := f.To.Sub(f.From), whole.Updated.Sub(whole.Started); length < of/10 || length > of*3/10 {
		t.Errorf("a fifth of %s is drawn, and the address has %s", of, length)
	}
	p.showsOps(r, f)
	if first := p.text("#filter-pid option:nth-child(2)"); first != "" { // the process with the most calls
		var pid string
		p.Do(`const v = await page.locator("#filter-pid option").nth(1).getAttribute("value"); await page.selectOption("#filter-pid", v); await page.waitForURL(/pid=/);`+settled+`return v;`, nil, &pid)
		n, err := strconv.ParseUint(pid, 10, 32)
		if err != nil || p.address().Get("pid") != pid {
			t.Fatalf("process %q, the address %v", pid, p.address())
		}
		f.PIDs = []uint32{uint32(n)}
		p.showsOps(r, f)
	}
	link := p.address().Encode()
	p.Do(`await page.goBack(); await page.goBack(); await until(() => !location.search.includes("from="));`+settled, nil, nil)
	if n := p.showsOps(r, query.Filter{}); n != all {
		t.Errorf("back: %d rows, there were %d", n, all)
	}
	show(t, browser, s.url+"/", "?"+link)
	p.showsOps(r, f)
	p.Do(`await page.keyboard.press("c"); await page.keyboard.press("0"); await until(() => location.search === "");`+settled, nil, nil)
	p.showsOps(r, query.Filter{})
	p.Do(`await page.keyboard.press("+"); await page.waitForURL(/from=/);`+settled, nil, nil)
	at = p.address()
	p.showsOps(r, query.Filter{From: timeOf(t, at.Get("from")), To: timeOf(t, at.Get("to"))})
	p.Do(`await page.keyboard.press("?"); await page.waitForSelector("dialog[open]"); await page.keyboard.press("Escape"); await page.waitForSelector("dialog[open]", { state: "detached" });
		for (let i = 0; i < 20 && !(await page.evaluate(() => document.activeElement?.id === "code")); i++) { // the dialog takes a moment to let go of the keys
			await page.keyboard.press("5");
			await page.waitForTimeout(50);
		}
		await until(() => document.activeElement?.id === "code");
		await page.keyboard.press("s"); await until(() => document.activeElement?.id === "sql-text");`, nil, nil)
	p.reachedByTab()
	p.unharmed()
}

// reachedByTab checks that the Tab key reaches the sections of the page.
func (p *pageOf) reachedByTab() {
	p.t.Helper()
	var reached int
	p.Do(`await page.reload();`+settled+`const ids = new Set();
		for (let i = 0; i < 200; i++) {
			await page.keyboard.press("Tab");
			const at = await page.evaluate(() => document.activeElement.closest("section")?.id ?? "");
			if (at) ids.add(at);
			if (at === "sql" && ids.size > 1) break;
		}
		return ids.size;`, nil, &reached)
	if reached < 6 {
		p.t.Errorf("by Tab %d sections are reached", reached)
	}
}

// A growing recording is shown as it grows, until it ends; then the page shows the program's own
// counts.
func TestPageOfALiveTrace(t *testing.T) {
	b := newBench(t)
	browser := testkit.Chromium(t)
	target := b.train("--seconds", "6")
	trace := b.ingero("trace", "--max-overhead", "0", "--pid", pid(target))
	b.tracing(1)
	s := serveBy(t, "dashboard", b.db(), time.Now, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "")
	p.Do(`await until(() => document.querySelector(".status")?.textContent === "Recording now");`, nil, nil)
	target.Send("go")
	p.Do(`await until(() => document.querySelector("#ops tbody tr"), null, 120000);`, nil, nil)
	want := counts(t, target)
	stdout, stderr, code := finish(t, trace)
	if code != 0 {
		t.Fatalf("trace: %d %s", code, stderr)
	}
	p.Do(`await until(() => document.querySelector(".status")?.textContent.startsWith("Recorded, ended"), null, 120000);
		await until((n) => document.querySelector("#ops tbody")?.textContent.replaceAll(",", "").includes(n), args, 120000);`+settled,
		strconv.FormatUint(want["cudaLaunchKernel"], 10), nil)
	p.seesTheEnd(strconv.FormatUint(want["cudaLaunchKernel"], 10))
	r := readDB(t, b.db())
	p.showsOps(r, query.Filter{})
	p.showsTimeline(r)
	p.showsCode(r)
	for _, row := range p.rows("Calls by operation") {
		if strings.Contains(stdout+stderr, "thinned") { // then windows are estimates, and the page says so
			break
		}
		if n, ok := want[row["operation"]]; ok && strings.ReplaceAll(row["calls"], ",", "") != strconv.FormatUint(n, 10) {
			t.Errorf("%s: %s calls, the program made %d; %s%s", row["operation"], row["calls"], n, stdout, stderr)
		}
	}
	p.unharmed()
}

// A panel that cannot be drawn says so until its next answer. The other panels show their data.
func TestPageOfABrokenPanel(t *testing.T) {
	browser := testkit.Chromium(t)
	db := incidentDB(t)
	s := serveBy(t, "dashboard", db, later, nil, "--addr", ":0")
	p := show(t, browser, s.url+"/", "")
	p.Do(`await page.route("**/api/v1/heatmap**", (r) => r.fetch().then(async (x) => {
			const h = await x.json();
			r.fulfill({ json: { ...h, ops: h.ops.map((o) => ({ ...o, low_ns: null })) } });
		}), { times: 1 });
		await page.reload();
		await until(() => document.querySelector("#latency [role=alert]")?.textContent.includes("cannot be drawn"));`+settled+`
		seen.console.splice(0);`, nil, nil) // the page logs the error
	p.showsOps(readDB(t, db), query.Filter{})
	p.Do(`await page.keyboard.press("+"); await page.waitForURL(/from=/); await page.waitForSelector("#latency canvas"); await page.keyboard.press("0");`+settled, nil, nil)
	p.showsAll(readDB(t, db))
	p.unharmed()
}

// seesTheEnd loads the page of an ended recording while the first answers fail, or are from before
// the end. The page must ask again and show all launches.
func (p *pageOf) seesTheEnd(launches string) {
	p.t.Helper()
	for _, x := range []struct{ path, first string }{
		{"overview", `r.fulfill({ status: 500, json: { error: "too much to do" } })`},
		{"overview", `r.fetch().then(async (x) => r.fulfill({ json: { ...(await x.json()), recording: true } }))`},
		{"recordings", `r.fetch().then(async (x) => {
			const json = await x.json();
			Object.assign(json.recordings[0], { state: "running", to: new Date(Date.parse(json.recordings[0].to) - 3000).toISOString() });
			return r.fulfill({ json });
		})`},
		{"{overview,ops*}", `r.fetch().then(async (x) => {
			const json = await x.json();
			if (!json.operations) return r.fulfill({ json: { ...json, recording: true } });
			return r.fulfill({ json: ended ? json : { ...json, operations: [] } }); // never from before the end once that is known
		})`},
	} {
		p.Do(`const asked = new Set();
			let ended = false;
			const answer = (r) => {
				const path = new URL(r.request().url()).pathname;
				ended ||= asked.has(path) && path.endsWith("overview");
				return asked.has(path) ? r.continue() : (asked.add(path), `+x.first+`);
			};
			await page.route("**/api/v1/`+x.path+`", answer);
			await page.reload();
			await until(() => document.querySelector(".status")?.textContent.startsWith("Recorded, ended"), null, 120000);
			await until((n) => document.querySelector("#ops tbody")?.textContent.replaceAll(",", "").includes(n), args, 120000);
			await page.unroute("**/api/v1/`+x.path+`", answer);
			seen.console.splice(0);
			seen.failures.splice(0);`+settled, launches, nil)
	}
}

// hostileDB records programs whose names, and all other names, contain HTML.
func hostileDB(t *testing.T) string {
	t.Helper()
	const bad = `<img src=x onerror="hacked=1">`
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", bad, began)
	if err != nil {
		t.Fatal(err)
	}
	x.place = tick.Where{Cmdline: bad + "</script><script>hacked=1</script>", Pod: bad}
	x.lost = 300 * time.Millisecond
	for range 3 {
		at := x.now.UnixNano()
		if err := x.second(); err != nil {
			t.Fatal(err)
		}
		stack := events.Stack{ID: 7, PID: 4821, Frames: []events.Frame{{Kind: events.FramePython, Func: bad, File: bad + ".py", Line: 3}}}
		c := events.Call{Start: at + 6e8, Duration: 1e6, PID: 4821, TID: 4821, Weight: 1, Op: fixtureMalloc, Stack: 7, Args: [4]uint64{1 << 20, 0x7f0000000000}}
		if err := x.db.Batch(&tick.Batch{Calls: []events.Call{c}, Stacks: []events.Stack{stack}}); err != nil {
			t.Fatal(err)
		}
	}
	tk := x.tick(true)
	for i := range tk.Processes {
		tk.Processes[i].Comm, tk.Processes[i].Exe = "<b>job</b>", bad
	}
	tk.Chains[0].Culprits[0].Thread.Name, tk.Chains[0].Culprits[0].Cmdline = events.NameOf("<i>hog</i>"), bad
	tk.Chains[0].Timeline = []tick.Moment{{Time: began, Source: "HOST", Text: bad}}
	if err := x.db.Tick(tk); err != nil {
		t.Fatal(err)
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	return db
}

// Names of programs are text, on the page and in a report.
func TestPageOfHostileNames(t *testing.T) {
	browser := testkit.Chromium(t)
	db := hostileDB(t)
	s := serveBy(t, "dashboard", db, atTheEnd, nil, "--addr", ":0")
	file := filepath.Join(t.TempDir(), "report.html")
	if code, _, stderr := command(t, atTheEnd, nil, "report", "--db", db, "-o", file); code != 0 {
		t.Fatal(stderr)
	}
	for _, home := range []string{s.url + "/", "file://" + file} {
		browser.Do(`await page.goto("about:blank"); seen.requests.splice(0);`, nil, nil)
		p := show(t, browser, home, "")
		var got struct {
			Hacked   bool
			Elements int
			Text     string
		}
		p.Do(`await page.click("#code summary"); return await page.evaluate(() => ({ Hacked: "hacked" in window, Elements: document.querySelectorAll("img, #page script, #page iframe, #page b > job, .panel i").length, Text: document.body.innerText }));`, nil, &got)
		if got.Hacked || got.Elements > 0 {
			t.Errorf("%s: hacked %v, %d elements", home, got.Hacked, got.Elements)
		}
		for _, want := range []string{"<b>job</b>", "<i>hog</i>", `<img src=x onerror="hacked=1">.py`} {
			if !strings.Contains(got.Text, want) {
				t.Errorf("%s does not say %s", home, want)
			}
		}
		p.unharmed()
	}
}

// A report is one file that shows the same without a network.
func TestReportInABrowser(t *testing.T) {
	browser := testkit.Chromium(t)
	db := incidentDB(t)
	file := filepath.Join(t.TempDir(), "report.html")
	if code, _, stderr := command(t, later, nil, "report", "--db", db, "-o", file); code != 0 {
		t.Fatal(stderr)
	}
	if s, err := os.Stat(file); err != nil || s.Size() > 4<<20 {
		t.Errorf("%v, %v", s.Size(), err)
	}
	browser.Do(`await context.setOffline(true);`, nil, nil)
	p := show(t, browser, "file://"+file, "")
	p.showsAll(readDB(t, db))
	for _, what := range []string{"GPU wait", "Runnable", "Live GPU memory"} {
		p.Do(`await page.locator("#code").getByRole("button", { name: args }).click();`+settled, what, nil)
		if text := p.text("#code"); strings.Contains(text, "not in this file") {
			t.Errorf("%s: %s", what, text)
		}
	}
	p.unharmed()
	var requests []string
	p.Do(`return seen.requests;`, nil, &requests)
	for _, r := range requests {
		if r != "file://"+file && !strings.HasPrefix(r, "data:") && !strings.HasPrefix(r, "file://"+file+"?") {
			t.Errorf("it asks for %s", r)
		}
	}
}

// The page takes the server's token from a link or a field, and removes it from the URL.
func TestPageToken(t *testing.T) {
	const token = "0123456789abcdef+/="
	browser := testkit.Chromium(t)
	db := testDB(t)
	s := serveBy(t, "dashboard", db, atTheEnd, map[string]string{"INGERO_TOKEN": token}, "--addr", ":0")
	p := &pageOf{browser, t, s.url + "/"}
	p.Do(`await page.goto(args); await page.waitForSelector("dialog[open] input[type=password]");
		await page.fill("dialog[open] input", "0123456789abcdeX"); await page.keyboard.press("Enter");
		await until(() => document.querySelector("dialog[open]")?.textContent.includes("does not match"));
		await page.fill("dialog[open] input", "`+token+`"); await page.keyboard.press("Enter");
		await page.waitForSelector("#ops tbody tr");`+settled+`seen.console.splice(0); seen.failures.splice(0);`, p.home, nil)
	p.showsOps(readDB(t, db), query.Filter{})
	p.Do(`await page.evaluate(() => sessionStorage.clear()); await page.goto("about:blank"); await page.goto(args + "?rows=thread#token=" + encodeURIComponent("`+token+`")); await page.waitForSelector("#ops tbody tr");`+settled, p.home, nil)
	var address string
	if p.Do(`return page.url();`, nil, &address); address != p.home+"?rows=thread" {
		t.Errorf("the address is %s", address)
	}
	var cookies []any
	if p.Do(`return await context.cookies();`, nil, &cookies); len(cookies) > 0 {
		t.Errorf("cookies: %v", cookies)
	}
	p.unharmed()
}
