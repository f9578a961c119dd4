package query

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refused are statements that are rejected with an explanation, however they are disguised.
var refused = []struct{ name, text, why string }{
	{"insert", "INSERT INTO sessions DEFAULT VALUES", "INSERT cannot be used"},
	{"insert behind with", "WITH x AS (SELECT 1) INSERT INTO drops SELECT 1, 'x', 1", "would change"},
	{"update behind with", "WITH x AS (SELECT 1) UPDATE sessions SET node = 'x'", "would change"},
	{"delete behind with", "WITH x AS (SELECT 1) DELETE FROM ops", "would change"},
	{"replace behind with", "WITH x AS (SELECT 1) REPLACE INTO drops VALUES (1, 'x', 1)", "would change"},
	{"delete that is explained", "EXPLAIN DELETE FROM ops", "would change"},
	{"update", "UPDATE sessions SET node = 'x'", "UPDATE cannot be used"},
	{"delete", "DELETE FROM ops", "DELETE cannot be used"},
	{"drop", "DROP TABLE ops", "DROP cannot be used"},
	{"drop of a virtual table", "DROP TABLE events", "DROP cannot be used"},
	{"create", "CREATE TABLE x(a)", "CREATE cannot be used"},
	{"create temp", "CREATE TEMP TABLE x AS SELECT 1", "CREATE cannot be used"},
	{"create virtual", "CREATE VIRTUAL TABLE temp.x USING fts5(a)", "CREATE cannot be used"},
	{"create trigger", "CREATE TEMP TRIGGER t BEFORE INSERT ON ops BEGIN SELECT 1; END", "several statements"},
	{"explain create", "EXPLAIN CREATE TABLE x(a)", "would change"},
	{"alter", "ALTER TABLE ops RENAME TO x", "ALTER cannot be used"},
	{"reindex", "REINDEX", "REINDEX cannot be used"},
	{"analyze", "ANALYZE", "ANALYZE cannot be used"},
	{"begin", "BEGIN EXCLUSIVE", "BEGIN cannot be used"},
	{"savepoint", "SAVEPOINT x", "SAVEPOINT cannot be used"},
	{"attach", "ATTACH '/tmp/x.db' AS x", "ATTACH cannot be used"},
	{"attach that is explained", "EXPLAIN ATTACH '/tmp/x.db' AS x", "no other database"},
	{"detach", "DETACH main", "DETACH cannot be used"},
	{"vacuum", "VACUUM", "VACUUM cannot be used"},
	{"vacuum into", "VACUUM INTO '/tmp/x.db'", "VACUUM cannot be used"},
	{"pragma", "PRAGMA writable_schema=on", "PRAGMA cannot be used"},
	{"pragma behind comments", "/* a */ -- b\n PRAGMA query_only=off", "PRAGMA cannot be used"},
	{"pragma that is explained", "EXPLAIN PRAGMA query_only=off", "PRAGMA cannot be used"},
	{"pragma function", "SELECT * FROM pragma_table_info('sessions')", "cannot be"},
	{"pragma function without arguments", "SELECT * FROM pragma_database_list", "cannot be"},
	{"pragma function with a schema", "SELECT * FROM temp.pragma_query_only", "cannot be read"},
	{"pragma in a subquery", "SELECT (SELECT count(*) FROM pragma_function_list)", "cannot be"},
	{"dbstat", "SELECT * FROM dbstat", "cannot be read"},
	{"raw pages", "SELECT data FROM sqlite_dbpage", "cannot be read"},
	{"sequence", "SELECT * FROM sqlite_sequence", "no such table"},
	{"load_extension", "SELECT load_extension('/tmp/x.so')", "load_extension"},
	{"load_extension in a condition", "SELECT 1 FROM events WHERE load_extension('x', 'y')", "load_extension"},
	{"log", "SELECT sqlite_log(1, 'x')", "sqlite_log cannot be used"},
	{"full text's own functions", "SELECT fts5(NULL)", "fts5 cannot be used"},
	{"what runs a statement", "SELECT ingero_run(1)", "ingero_run cannot be used"},
	{"the module as a table", "SELECT * FROM ingero_events", "no such table"},
	{"several", "SELECT 1; SELECT 2", "several statements"},
	{"several behind a comment", "SELECT 1; /* x */ ; DELETE FROM ops", "several statements"},
	{"several behind a string", "SELECT ';''' || \"a;\" || [b;] || `c;`; DELETE FROM ops", "several statements"},
	{"nothing", " ;; ", "is empty"},
	{"a comment", "-- nothing", "is empty"},
	{"comments do not nest", "/* /* */ DELETE FROM ops /* */", "DELETE cannot be used"},
	{"a zero byte", "SELECT 1\x00; DELETE FROM ops", "zero byte"},
	{"no text", "SELECT '\xff\xfe'", "not valid UTF-8"},
	{"too long", "SELECT '" + strings.Repeat("x", 20_000) + "'", "20009 bytes"},
	{"parameters", "SELECT ?", "has parameters"},
	{"a named parameter", "SELECT :pid", "has parameters"},
	{"a value too large", "SELECT zeroblob(1000000000)", "too large"},
	{"text too large", "SELECT printf('%.*c', 100000000, 'x')", "too large"},
	{"a fraction too long", "SELECT printf('%.99999999f', 1.0)", "too large"},
	{"replace too large", "SELECT replace(hex(zeroblob(40000)), '0', 'zero')", "more than 100000 bytes"},
	{"joined too large", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 10000) SELECT group_concat(hex(zeroblob(1000))) FROM c", "too large"},
	{"a program too long", "SELECT " + constants(20, 25, "1"), "too complex"},
	{"a pattern too long", "SELECT 'a' LIKE '" + strings.Repeat("%a", 60) + "'", "too complex"},
	{"no such function", "SELECT 'a' REGEXP '(a+)+b'", "no such function"},
	{"too deep", "SELECT " + strings.Repeat("-(", 900) + "1" + strings.Repeat(")", 900), "maximum depth"},
	{"too many columns", "SELECT " + strings.Repeat("1,", 2000) + "1", "too many columns"},
	{"too many selects", "SELECT 1" + strings.Repeat(" UNION SELECT 1", 600), "too many terms"},
	{"a typing mistake", "SELEC 1", "SELEC cannot be used"},
	{"no such table", "SELECT * FROM evnts", "no such table: evnts"},
	{"no such column", "SELECT nosuch FROM events", "no such column: nosuch"},
	{"syntax", "SELECT FROM WHERE", "syntax error"},
}

func TestRefused(t *testing.T) {
	r := sqlDB(t)
	before := snapshot(t, filepath.Dir(r.Path()))
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			res, err := r.SQL(context.Background(), tt.text, SQLLimits{})
			var wrong *SQLError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.why) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %+v, %v; want an error with %q", res, err, tt.why)
			}
		})
	}
	if after := snapshot(t, filepath.Dir(r.Path())); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
	if res, err := r.SQL(context.Background(), "SELECT count(*) FROM sessions", SQLLimits{}); err != nil || res.Rows[0][0] != int64(2) {
		t.Errorf("afterwards %v, %v", res, err)
	}
}

// snapshot lists a directory's files with their checksums.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "-wal") && size0(path) { // an index that any reader makes
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %d %x\n", path, len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func size0(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Size() == 0
}

const endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "

// endlessOnes are statements that would take hours or all memory.
var endlessOnes = []struct{ name, text string }{
	{"recursion", endless + "SELECT count(*) FROM c"},
	{"recursion without doubles", "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT max(x) FROM c"},
	{"the second row", "SELECT 1 UNION ALL SELECT * FROM (" + endless + "SELECT count(*) FROM c)"},
	{"rows that do not match", endless + "SELECT x FROM c WHERE x < 0"},
	{"recursion that is sorted", endless + "SELECT x FROM c ORDER BY -x"},
	{"recursion with large values", "WITH RECURSIVE c(x) AS (SELECT randomblob(90000) UNION ALL SELECT randomblob(90000) FROM c) SELECT count(DISTINCT x) FROM c"},
	{"large values that are sorted", "WITH RECURSIVE c(x) AS (SELECT randomblob(90000) UNION ALL SELECT randomblob(90000) FROM c) SELECT length(x) FROM c ORDER BY x"},
	{"a window of everything", endless + "SELECT x, sum(x) OVER (ORDER BY x DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM c"},
	{"cross join of calls", "SELECT count(*) FROM events a, events b, events c, events d"},
	{"cross join of tables", "SELECT count(*) FROM ops a, ops b, ops c, ops d, ops e, ops f, ops g, ops h, ops i, ops j"},
	{"cross join of waits", "SELECT count(*) FROM waits a, waits b, waits c, waits d"},
	{"cross join of sums", "SELECT count(*) FROM op_stats a, timeline('1s') b, quantile c, op_stats d, op_stats e, op_stats f, op_stats g"},
	{"join of sixty", "SELECT count(*) FROM events" + strings.Repeat(", events", 59)},
	{"laughter", "WITH a AS (SELECT 1 UNION ALL SELECT 2)" + laughter(22) + " SELECT count(*) FROM a22"},
	{"wide laughter", "WITH a AS (SELECT 1), b AS (SELECT 1 FROM a" + strings.Repeat(", a", 49) + "), c AS (SELECT 1 FROM b" + strings.Repeat(", b", 49) + "), d AS (SELECT 1 FROM c" + strings.Repeat(", c", 49) + "), e AS (SELECT 1 FROM d" + strings.Repeat(", d", 49) + ") SELECT count(*) FROM e, events, events, events, events"},
	{"wide laughter in conditions", "WITH a AS (SELECT 1 AS x), b AS (SELECT 1 AS x WHERE 1 IN a" + strings.Repeat(" OR 1 IN a", 49) + "), c AS (SELECT 1 AS x WHERE 1 IN b" + strings.Repeat(" OR 1 IN b", 49) + "), d AS (SELECT 1 AS x WHERE 1 IN c" + strings.Repeat(" OR 1 IN c", 49) + ") SELECT count(*) FROM d, events, events, events, events"},
	{"like", endless + "SELECT count(*) FROM c WHERE hex(zeroblob(49000)) || x LIKE '%0_0%0_0%0_0%0_0%0_0%0_0%z'"},
	{"glob", endless + "SELECT count(*) FROM c WHERE hex(zeroblob(49000)) || x GLOB '*0?0*0?0*0?0*[^0-9]*'"},
	{"instr of the worst case", endless + "SELECT sum(instr(hex(zeroblob(49000)), hex(zeroblob(20000)) || x)) FROM c"},
	{"replace of the worst case", endless + "SELECT sum(length(replace(hex(zeroblob(49000)), hex(zeroblob(20000)) || x, 'y'))) FROM c"},
	{"trim of the worst case", endless + "SELECT sum(length(trim(hex(zeroblob(49000)), hex(randomblob(40000)) || x))) FROM c"},
	{"json", endless + "SELECT sum(json_array_length('[' || substr(replace(hex(zeroblob(12000)), '0', '0,'), 1, 40000) || x || ']')) FROM c"},
	{"json in trees", "SELECT count(*) FROM json_tree('[' || substr(replace(hex(zeroblob(12000)), '0', '[],'), 1, 60000) || '1]') a, json_each('[' || substr(replace(hex(zeroblob(12000)), '0', '0,'), 1, 40000) || '1]') b"},
	{"many large values", "SELECT " + strings.Repeat("hex(randomblob(48000)), ", 100) + "1 FROM events ORDER BY 1"},
	{"many large constants", "SELECT " + constants(12, 25, "x") + " FROM (" + endless + "SELECT x FROM c)"},
	{"many large joins", "SELECT " + strings.Repeat("max(y"+strings.Repeat(", y||x", 25)+"), ", 12) + "1 FROM (" + endless + "SELECT x, hex(randomblob(48000)) AS y FROM c)"},
	{"aggregates of large values", endless + "SELECT x % 100000, max(randomblob(50000)) FROM c GROUP BY 1"},
	{"a group for each", endless + "SELECT percentile(x, 0.5) FROM c GROUP BY x"},
}

// laughter doubles its input n times.
func laughter(n int) string {
	var b strings.Builder
	last := "a"
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, ", a%d AS (SELECT x.* FROM %s x, %s y)", i, last, last)
		last = "a" + strconv.Itoa(i)
	}
	return b.String()
}

// constants returns columns with many large constants each.
func constants(columns, each int, x string) string {
	all := make([]string, columns)
	for i := range all {
		one := make([]string, each)
		for j := range one {
			one[j] = fmt.Sprintf("hex(zeroblob(%d))", 48_000-i*each-j)
		}
		all[i] = "max(" + x + ", " + strings.Join(one, ", ") + ")"
	}
	return strings.Join(all, ", ")
}

// Endless statements end at their time limit, none makes the process grow by 256 MB, and the next
// statement runs.
func TestEndless(t *testing.T) {
	const most = 300 * time.Millisecond
	r := sqlDB(t)
	before := snapshot(t, filepath.Dir(r.Path()))
	for _, tt := range endlessOnes {
		t.Run(tt.name, func(t *testing.T) {
			was := peak(t)
			res, err := r.SQL(context.Background(), tt.text, SQLLimits{Time: most})
			r.running.Wait()
			var wrong *SQLError
			if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &wrong) && (res == nil || res.Cut == "") {
				t.Errorf("got %+v, %v", res, err)
			}
			grown := high(t) - was
			if grown > 256<<20 {
				t.Errorf("the process grew by %d MB", grown>>20)
			}
			t.Logf("%d MB: %v", grown>>20, err)
		})
	}
	if after := snapshot(t, filepath.Dir(r.Path())); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
	if n := temporary(); n > 0 {
		t.Errorf("%d bytes are left in temporary files", n)
	}
}

// peak resets the process's memory high-water mark, and returns its current memory.
func peak(t *testing.T) int64 {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return high(t)
}

// high returns the process's highest memory since then, in bytes.
func high(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
