//go:build interop

package clickhouse_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/export"
	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/testkit"
)

// same waits until all replicas have all n calls of a session exactly once.
func (c *cluster) same(session string, n int) {
	c.t.Helper()
	want := fmt.Sprintf("%d\t%d\t%d", n, n, n-1)
	for _, s := range c.servers {
		got := ""
		testkit.Eventually(c.t, fmt.Sprintf("the replicas to have %d calls (%s)", n, got), func() bool {
			got, _ = s.query("SELECT count(), uniqExact(number), max(number) FROM ingero.calls WHERE session = '" + session + "'")
			return got == want
		})
	}
	for _, of := range c.shards {
		const local = "SELECT count(), sum(cityHash64(number)) FROM ingero.calls_local"
		testkit.Eventually(c.t, "the replicas of a shard to be equal", func() bool {
			a, errA := c.servers[of[0]].query(local)
			b, errB := c.servers[of[1]].query(local)
			return errA == nil && errB == nil && a == b
		})
		if c.servers[of[0]].ask("SELECT count() FROM ingero.calls_local") == "0" {
			c.t.Error("a shard has nothing")
		}
	}
}

// A real cluster has exactly the recording's rows: every call once with all columns of other
// exports, sums and causes, despite repeated sends, another run, and servers that are killed and
// return.
func TestCluster(t *testing.T) {
	c := newCluster(t, []int{0, 1}, []int{2, 3})
	t.Run("copy", func(t *testing.T) { testCopy(t, c) })
	t.Run("part", func(t *testing.T) { testPart(t, c) })
	t.Run("facts", func(t *testing.T) { testFacts(t, c) })
	t.Run("names", func(t *testing.T) { testNames(t, c) })
	t.Run("killed", func(t *testing.T) { testKilled(t, c) })
}

func testCopy(t *testing.T, c *cluster) {
	const n = 200_000
	w := newRecorder(t, "it's")
	for w.n < n {
		w.record(20_000)
		w.tick(false)
	}
	r := w.whole()
	all := query.Filter{Session: query.AllSessions}
	for _, from := range []int{0, 3} { // the second time by another server
		res, err := clickhouse.Copy(t.Context(), open(t, c.addresses(from)), r, all, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first := from == 0; first != (res.Calls == n) || first != (res.There == 0) || res.Calls+res.There != n || first != (res.Rollups > 0) || first != (res.Chains == 1) {
			t.Errorf("it says %+v", res)
		}
		c.same(`it\'s`, n)
	}
	s := c.servers[1]
	if d := cmp.Diff(fromCSV(t, r), strings.Split(s.ask("SELECT "+columnNames()+" FROM ingero.calls ORDER BY number LIMIT 2000"), "\n")); d != "" {
		t.Errorf("rows are not those of the recording: -want +got:\n%.2000s", d)
	}
	if got, want := s.ask("SELECT sum(calls), sum(done), sum(errors), count() > 10 FROM ingero.rollups"), fmt.Sprintf("%d\t%d\t%d\t1", n, n-n/50, n/50); got != want {
		t.Errorf("rollups sum to %q, want %q", got, want)
	}
	testQuantile(t, s, w.all)
	testPanels(t, s)
	if got, want := s.ask("SELECT id, rule, severity, lost_ns, baseline, culprit FROM ingero.chains FINAL"), fmt.Sprintf("c-1\tcpu-taken\tHIGH\t%d\tit\\'s\t", n); got != strings.TrimSpace(want) {
		t.Errorf("chains %q, want %q", got, want)
	}
}

// testNames checks that the cluster has the programs' names, in valid UTF-8.
func testNames(t *testing.T, c *cluster) {
	for i, name := range []string{`say "hi" 'you'`, "line\nbreak", "ODS_T - \xe8\xa1", `a\nb\"c`, "\x1b[31mred", "two  words ", "訓練ジョブ", strings.Repeat("long", 100)} {
		session := fmt.Sprintf("names-%d", i)
		w := newRecorder(t, session)
		w.comm = name
		w.record(100)
		if _, err := clickhouse.Copy(t.Context(), open(t, c.addresses(0)), w.whole(), query.Filter{Session: query.AllSessions}, nil); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("50\t%x", strings.ToValidUTF8(name, "?"))
		testkit.Eventually(t, fmt.Sprintf("the name %q", name), func() bool {
			got, err := c.servers[1].query("SELECT count(), lower(hex(any(comm))) FROM ingero.calls WHERE session = '" + session + "' AND pid = 7")
			return err == nil && got == want
		})
	}
}

// testPanels checks that the dashboard's panel queries return rows.
func testPanels(t *testing.T, s *server) {
	t.Helper()
	for title, queries := range panels(t) {
		for _, query := range queries {
			if answer := s.ask(query); answer == "" {
				t.Errorf("%s has no rows", title)
			}
		}
	}
}

// testQuantile computes a quantile from the histograms of all rollups.
func testQuantile(t *testing.T, s *server, all *stats.Sketch) {
	t.Helper()
	got := s.ask(`SELECT toInt64(quantileExactWeighted(0.99)(at, n)) FROM
		(SELECT s.1 AS ats, s.2 AS ns, at, n FROM (SELECT sumMap(bucket_ns, bucket_calls) AS s FROM ingero.rollups WHERE done > 0) ARRAY JOIN s.1 AS at, s.2 AS n)`)
	var v int64
	if _, err := fmt.Sscan(got, &v); err != nil {
		t.Fatal(got, err)
	}
	if want := all.Quantile(0.99); v < want*99/100 || v > want*101/100 {
		t.Errorf("p99 is %d, want %d within 1 %%", v, want)
	}
}

func columnNames() string {
	var names []string
	for _, c := range export.BinaryColumns() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// fromCSV returns the expected first calls: tab-separated, \N for unknown values.
func fromCSV(t *testing.T, r *query.Reader) (out []string) {
	t.Helper()
	var b bytes.Buffer
	if _, err := export.CSV(t.Context(), &b, r, query.Filter{Session: query.AllSessions, To: began.Add(200 * time.Millisecond)}, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	clean := strings.NewReplacer("\t", `\t`, "'", `\'`)
	for i, row := range rows[1:] {
		row[0] = fmt.Sprint(i)
		for j, v := range row {
			switch v {
			case "":
				row[j] = `\N`
			case "true", "false":
				row[j] = map[string]string{"true": "1", "false": "0"}[v]
			default:
				row[j] = clean.Replace(v)
			}
		}
		out = append(out, strings.Join(row, "\t"))
	}
	return out
}

// testPart sends a part of a session, and then all of it.
func testPart(t *testing.T, c *cluster) {
	w := newRecorder(t, "part")
	w.record(100_000)
	r := w.whole()
	f := query.Filter{Session: "part", PIDs: []uint32{8}}
	res, err := clickhouse.Copy(t.Context(), open(t, c.addresses(1)), r, f, nil)
	if err != nil || res.Calls != 50_000 {
		t.Fatal(res, err)
	}
	for _, s := range c.servers {
		testkit.Eventually(t, "the replicas to have a part", func() bool {
			n, _ := s.query("SELECT count() FROM ingero.calls WHERE session = 'part'")
			return n == "50000"
		})
	}
	f.PIDs = nil
	res, err = clickhouse.Copy(t.Context(), open(t, c.addresses(2)), r, f, nil)
	if err != nil || res.Calls != 50_000 || res.There != 50_000 {
		t.Fatal(res, err)
	}
	c.same("part", 100_000)
}

// testFacts copies requests, reads and labels, and then again by another server.
func testFacts(t *testing.T, c *cluster) {
	const ticks, each = 3, 3000
	w := newRecorder(t, "facts")
	w.facts = facts(each)
	for i := range ticks {
		w.record(100)
		w.now = w.now.Add(time.Duration(i+1) * time.Minute)
		w.tick(false)
	}
	w.facts = nil
	r := w.whole()
	for i, from := range []int{0, 3} {
		res, err := clickhouse.Copy(t.Context(), open(t, c.addresses(from)), r, query.Filter{Session: "facts"}, nil)
		if err != nil || i == 0 && (res.Requests != 2*ticks*each || res.Reads != ticks || res.Labels != ticks) || i > 0 && res.Requests+res.Reads+res.Labels > 0 {
			t.Errorf("copy %d: %+v, %v", i, res, err)
		}
		for table, want := range map[string]string{"requests": "18000", "inference": "3", "labels": "3"} {
			for _, s := range c.servers {
				testkit.Eventually(t, "the replicas to have all "+table, func() bool {
					n, err := s.query("SELECT count() FROM ingero." + table + " WHERE session = 'facts'")
					return err == nil && n == want
				})
			}
		}
	}
	s := c.servers[1]
	if got, want := s.ask("SELECT status, post, first_ns, ended, peer FROM ingero.requests WHERE session = 'facts' AND pid = 7 LIMIT 1"), "200\t1\t0\topen\t[fe80::1%eth0]:5"; got != want {
		t.Errorf("a request is %q, want %q", got, want)
	}
	if got := s.ask("SELECT DISTINCT engine, url, isNull(running) FROM ingero.inference WHERE session = 'facts'"); got != "vLLM\thttp://localhost:8000/it\\'s\t1" {
		t.Errorf("a read is %q", got)
	}
}

// testKilled copies a session during its recording, and kills one server after the other while rows
// come, including the one that receives them.
func testKilled(t *testing.T, c *cluster) {
	const part = 600 // few, because the follower pauses for twenty times as long as it sends
	w := newRecorder(t, "killed")
	w.gap = 500 * time.Microsecond // so that there are several rollups
	cl := open(t, c.addresses(0, 2))
	f := clickhouse.Follow(cl, clickhouse.FollowOptions{Path: w.path, Every: 50 * time.Millisecond, Grace: time.Minute,
		Mine: func(s *query.Session) bool { return s.ID == "killed" }})
	defer func() { _ = f.Close() }()
	sent := func() uint64 { return f.State().Calls }
	for _, victim := range []int{0, 3, 2} {
		before := sent()
		w.record(10 * part)
		w.tick(false)
		testkit.Eventually(t, "rows to be on their way", func() bool { return sent() > before })
		for range 10 {
			w.record(part)
			w.tick(false)
		}
		c.servers[victim].kill()
		for range 10 {
			w.record(part)
			w.tick(false)
		}
		testkit.Eventually(t, "rows to be taken by others", func() bool { return sent() >= uint64(w.n)-part })
		c.servers[victim].start()
		c.servers[victim].ready()
	}
	_ = w.whole()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if s := f.State(); !s.Complete || s.Calls != uint64(w.n) || s.LostCalls != 0 || s.Problem != "" {
		t.Errorf("at the end: %+v", s)
	}
	c.same("killed", w.n)
	testkit.Eventually(t, "the replica to have all rollups", func() bool {
		got, err := c.servers[1].query("SELECT sum(calls) FROM ingero.rollups FINAL WHERE session = 'killed'")
		return err == nil && got == fmt.Sprint(w.n)
	})
}
