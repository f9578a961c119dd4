package query

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store/segment"
)

// Splittable statements become the listed ones for each database; others are refused.
func TestSplitSQL(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT node, source, count(*) FROM events GROUP BY node, source":                               "SELECT node, source, count(*) FROM events GROUP BY node , source",
		"select count(*) from events;":                                                                  "SELECT count(*) FROM events",
		"SELECT op, avg(duration_ns) AS a FROM events WHERE pid = 3 GROUP BY 1 ORDER BY a DESC LIMIT 3": "SELECT op, total(duration_ns), count(duration_ns) FROM events WHERE pid = 3 GROUP BY 1",
		"SELECT avg(a), op FROM events GROUP BY 2":                                                      "SELECT total(a), count(a), op FROM events GROUP BY 3",
		"SELECT us(percentile(duration_ns, 99)) FROM events":                                            "SELECT sketch(duration_ns) FROM events",
		"SELECT e.op, sum(e.x) FROM a e JOIN b ON b.y = e.y GROUP BY e.op ORDER BY 2":                   "SELECT e . op, sum(e . x) FROM a e JOIN b ON b . y = e . y GROUP BY e . op",
		"SELECT x'00ff' = id AS k, 1.5e3 + max(a) FROM b GROUP BY k":                                    "",
		"SELECT x'00ff' = id AS k, max(a) FROM b WHERE c ->> 'd' >= 1.5e-3 GROUP BY k":                  "SELECT x'00ff' = id AS k, max(a) FROM b WHERE c ->> 'd' >= 1.5e-3 GROUP BY k",
		"SELECT op FROM events GROUP BY op -- comment":                                                  "SELECT op FROM events GROUP BY op",
		"SELECT upper(op) AS u, count(*) FROM events GROUP BY upper( OP ) ORDER BY count(*) DESC, u":    "SELECT upper ( op ) AS u, count(*) FROM events GROUP BY upper ( OP )",
		"SELECT * FROM events":                                         "",
		"SELECT op FROM events":                                        "",
		"SELECT op, count(*) FROM events":                              "",
		"SELECT upper(op) AS op, count(*) FROM events GROUP BY op":     "",
		"SELECT count(*) FROM events GROUP BY op":                      "",
		"SELECT op, count(DISTINCT pid) FROM events GROUP BY op":       "",
		"SELECT op, count(*) FROM events GROUP BY op HAVING 1":         "",
		"SELECT op, count(*) n FROM events GROUP BY op":                "",
		"SELECT op, sum(a) / sum(b) FROM events GROUP BY op":           "",
		"SELECT op, sum(a) OVER () FROM events GROUP BY op":            "",
		"SELECT op, min(a, b) FROM events GROUP BY op":                 "",
		"SELECT op, group_concat(a) FROM events GROUP BY op":           "",
		"SELECT count(*) FROM (SELECT 1)":                              "",
		"WITH a AS (VALUES (1)) SELECT count(*) FROM a":                "",
		"SELECT count(*) FROM a UNION SELECT 1":                        "",
		"SELECT op, count(*) FROM events GROUP BY op ORDER BY pid":     "",
		"SELECT op, count(*) FROM events GROUP BY op LIMIT 3 + 1":      "",
		"SELECT op, count(*) FROM events GROUP BY op LIMIT 3 OFFSET 1": "",
		"SELECT op, percentile(a, b) FROM events GROUP BY op":          "",
		"DELETE FROM events":                                           "",
		"SELECT count(*), (1 FROM events":                              "",
	} {
		p, ok := SplitSQL(text)
		if ok != (want != "") || ok && p.SQL != want {
			t.Errorf("%s\n got %v %+v\nwant %s", text, ok, p, want)
		}
	}
}

// nodesDB is a database of some machines.
func nodesDB(t *testing.T, nodes ...string) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	for _, node := range nodes {
		x := record(t, path, segment.Session{ID: "s" + node, Node: node, Started: began, Mode: "trace"})
		for range node[4] - '5' { // different numbers per machine
			x.second()
		}
		x.close()
	}
	return openReader(t, path)
}

// Merged answers of several databases equal the answer of one database with everything.
func TestMergeIsTheWhole(t *testing.T) {
	ctx := context.Background()
	whole := nodesDB(t, "gpu-7", "gpu-8")
	parts := []*Reader{nodesDB(t, "gpu-7"), nodesDB(t, "gpu-8")}
	for _, text := range []string{
		"SELECT count(*) FROM events",
		"SELECT node, source, count(*) FROM events GROUP BY node, source ORDER BY 1, 2",
		"SELECT op, count(*) AS n, sum(duration_ns), min(duration_ns), max(duration_ns), total(duration_ns) FROM events GROUP BY op ORDER BY n DESC, op",
		"SELECT op, avg(duration_ns), us(percentile(duration_ns, 99)) AS p99 FROM events GROUP BY op ORDER BY op",
		"SELECT avg(duration_ns), op, node FROM events GROUP BY 2, 3 ORDER BY 2, 3",
		"SELECT ms(percentile(duration_ns, 0.5)), ms(avg(duration_ns)), s(sum(duration_ns)) FROM events WHERE nested = 0",
		"SELECT op, max(comm), min(comm) FROM events GROUP BY op ORDER BY op LIMIT 2",
		"SELECT pid % 2 AS odd, avg(error), sum(error), count(error) FROM events GROUP BY odd ORDER BY odd",
		"SELECT avg(duration_ns), percentile(duration_ns, 0.9), sum(duration_ns), count(*) FROM events WHERE pid = 1",
		"SELECT op, sum(count), sum(total_ns) FROM op_stats WHERE count > 0 GROUP BY op ORDER BY 3 DESC, 1",
	} {
		want, err := whole.SQL(ctx, text, SQLLimits{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p, ok := SplitSQL(text)
		if !ok {
			t.Errorf("%s is not taken apart", text)
			continue
		}
		var answers []*SQLResult
		for _, r := range parts {
			a, err := r.SQL(ctx, p.SQL, SQLLimits{})
			if err != nil {
				t.Fatalf("%s: %v", p.SQL, err)
			}
			answers = append(answers, a)
		}
		got, err := p.Merge(answers)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want.Rows, got.Rows, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("%s (-whole +merged):\n%s", text, diff)
		}
		if diff := cmp.Diff(want.Columns, got.Columns); diff != "" {
			t.Errorf("%s: columns (-whole +merged):\n%s", text, diff)
		}
	}
}

// Answers that do not fit the statement, as from a lying machine, are errors.
func TestMergeRefuses(t *testing.T) {
	p, _ := SplitSQL("SELECT op, percentile(a, 0.5), sum(b) FROM c GROUP BY op")
	columns := []string{"op", "x", "y"}
	for name, a := range map[string]*SQLResult{
		"columns":      {Columns: []string{"op"}},
		"values":       {Columns: columns, Rows: [][]any{{"a"}}},
		"distribution": {Columns: columns, Rows: [][]any{{"a", []byte("xx"), int64(1)}}},
		"text":         {Columns: columns, Rows: [][]any{{"a", "x", int64(1)}}},
		"sum":          {Columns: columns, Rows: [][]any{{"a", nil, "x"}}},
		"second sum":   {Columns: columns, Rows: [][]any{{"a", nil, int64(1)}, {"a", nil, "x"}}},
	} {
		if got, err := p.Merge([]*SQLResult{a}); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	big := []*SQLResult{{Columns: columns, Rows: [][]any{{"a", nil, int64(1 << 62)}, {"b", nil, int64(-1 << 62)}}}, {Columns: columns, Rows: [][]any{{"a", nil, int64(1 << 62)}, {"b", nil, int64(-1<<62 - 1)}}}}
	got, err := p.Merge(big)
	if s := fmt.Sprint(got.Rows); err != nil || !strings.Contains(s, "9.223372036854776e+18") || !strings.Contains(s, "-9.22") {
		t.Errorf("a sum that is too large: %s, %v", s, err)
	}
}

// Any statement is either split or not; the resulting statement is a single one, too.
func FuzzSplitSQL(f *testing.F) {
	for _, seed := range []string{
		"SELECT op, avg(a) AS b FROM c GROUP BY 1 ORDER BY b DESC LIMIT 3", "SELECT count(,) FROM a", "SELECT us(percentile(a, 99)) FROM b", "SELECT x'00', 1.5e3 FROM a",
		"SELECT us() FROM a", "SELECT count() FROM a", "SELECT AS x FROM a GROUP BY", "SELECT a AS FROM b GROUP BY a ORDER BY DESC", "SELECT ms(avg()) FROM a", "SELECT max(1", "SELECT a FROM b GROUP BY 0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := SplitSQL(text)
		if !ok {
			return
		}
		if len(p.SQL) <= sqlText {
			if _, err := one(p.SQL); err != nil {
				t.Errorf("%q makes %q: %v", text, p.SQL, err)
			}
		}
		if _, err := p.Merge([]*SQLResult{{}, {Columns: []string{"a"}, Rows: [][]any{{int64(1)}}}}); err == nil && len(p.items) > 1 {
			t.Errorf("%q takes any answer", text)
		}
	})
}
