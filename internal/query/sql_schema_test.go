package query

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// aSample matches a statement that the dashboard offers, with its name.
var aSample = regexp.MustCompile(`\["([^"]+)", "(SELECT [^"]+)"\]`)

// Every worked example, also of the dashboard, has an answer.
func TestExamples(t *testing.T) {
	r := sqlDB(t)
	if len(SQLExamples) < 20 {
		t.Errorf("there are %d", len(SQLExamples))
	}
	page, err := os.ReadFile("../dashboard/web/src/sql.tsx")
	if err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile("../dashboard/web/assets/app.js")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(SQLExamples)
	for _, m := range aSample.FindAllStringSubmatch(string(page), -1) {
		all = append(all, SQLExample{Question: m[1], SQL: m[2]})
		if !strings.Contains(string(built), m[2]) {
			t.Errorf("%s\n%s\nis not in the built page: run tools/web.sh", m[1], m[2])
		}
	}
	if n := len(all) - len(SQLExamples); n < 3 {
		t.Errorf("the dashboard offers %d", n)
	}
	for _, x := range all {
		res := ask(t, r, x.SQL)
		if len(res.Rows) == 0 {
			t.Errorf("%s\n%s\nhas no rows", x.Question, x.SQL)
		}
		for i, c := range res.Columns {
			if !slices.ContainsFunc(res.Rows, func(row []any) bool { return row[i] != nil }) {
				t.Errorf("%s\n%s\n%s is always NULL", x.Question, x.SQL, c)
			}
		}
	}
}

// The documented schema matches the tables: order of columns and arguments, and every type.
func TestSchemaIsTrue(t *testing.T) {
	r := sqlDB(t)
	for _, table := range SQLSchema() {
		names := make([]string, len(table.Columns))
		for i, c := range table.Columns {
			names[i] = c.Name
			if c.About == "" || !slices.Contains([]string{"TEXT", "INTEGER", "REAL"}, c.Type) {
				t.Errorf("%s.%s: %+v", table.Name, c.Name, c)
			}
		}
		res := ask(t, r, "SELECT * FROM "+table.Name)
		if !slices.Equal(res.Columns, names) {
			t.Errorf("%s has %v, want %v", table.Name, res.Columns, names)
		}
		for _, row := range res.Rows {
			for i, v := range row {
				if v != nil && fmt.Sprintf("%T", v) != map[string]string{"TEXT": "string", "INTEGER": "int64", "REAL": "float64"}[table.Columns[i].Type] {
					t.Fatalf("%s.%s is a %T", table.Name, names[i], v)
				}
			}
		}
		ask(t, r, "SELECT "+strings.Join(names, ", ")+" FROM "+table.Name+" LIMIT 1") // no name needs quotes
		if n := len(table.Args); n > 0 {
			nulls := strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ")
			if got := ask(t, r, "SELECT * FROM "+table.Name+"("+nulls+")"); len(got.Rows) != len(res.Rows) {
				t.Errorf("%s has %d rows with NULL for all arguments, %d without", table.Name, len(got.Rows), len(res.Rows))
			}
			if _, err := r.SQL(t.Context(), "SELECT * FROM "+table.Name+"("+nulls+", NULL)", SQLLimits{}); err == nil {
				t.Errorf("%s takes more than %d arguments", table.Name, n)
			}
		}
	}
}

// The documented functions exist.
func TestFunctionsAreThere(t *testing.T) {
	r := sqlDB(t)
	own, builtin := SQLFunctions()
	known := map[string]bool{}
	rows, err := r.db.Query("SELECT DISTINCT name FROM pragma_function_list")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		known[name] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range builtin {
		if !known[name] {
			t.Errorf("SQLite has no %s", name)
		}
	}
	for _, f := range own {
		if f.About == "" || f.Args == "" {
			t.Errorf("%+v", f)
		}
		args := strings.TrimSuffix(strings.Repeat("NULL, ", strings.Count(f.Args, ",")+1), ", ")
		if got := first(t, r, "SELECT "+f.Name+"("+args+")"); got[0] != nil {
			t.Errorf("%s of NULL is %v", f.Name, got[0])
		}
	}
}

// sqlBig is a database of 300,000 calls.
func sqlBig(b *testing.B) *Reader {
	b.Helper()
	path := filepath.Join(b.TempDir(), "x.db")
	x := record(b, path, segment.Session{ID: "s", Node: "gpu-7"})
	for range 150 {
		calls := make([]events.Call, 2000)
		for i := range calls {
			at := x.now.UnixNano() + int64(i)*100_000
			calls[i] = events.Call{Start: at, PID: 4821, TID: 4821 + uint32(i%4), Op: []events.Op{opLaunch, opLaunch, opMalloc, opSync}[i%4],
				Duration: 5000 + x.r.Int64N(30_000), OnCPU: 5000, Gap: 1000, Weight: 1}
		}
		x.now = x.now.Add(time.Second)
		if err := x.db.Batch(&tick.Batch{Calls: calls}); err != nil {
			b.Fatal(err)
		}
	}
	x.close()
	return openReader(b, path)
}

func BenchmarkSQL(b *testing.B) {
	r := sqlBig(b)
	for _, text := range []string{"SELECT count(*) FROM events", "SELECT op, count(*), avg(duration_ns) FROM events GROUP BY op",
		"SELECT op, percentile(duration_ns, 0.99) FROM events GROUP BY op", "SELECT op, sum(count) FROM op_stats GROUP BY op",
		"SELECT max(duration_ns) FROM events WHERE op = 'cudaMalloc'", "SELECT * FROM events ORDER BY duration_ns DESC LIMIT 20"} {
		b.Run(text, func(b *testing.B) {
			rows := first(b, r, "SELECT count(*) FROM events")[0].(int64)
			for b.Loop() {
				ask(b, r, text)
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
