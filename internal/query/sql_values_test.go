package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Functions, by an expression and its value.
func TestSQLFunctions(t *testing.T) {
	r := sqlDB(t)
	for text, want := range map[string]any{
		"ms(1500000)": 1.5, "us(1500)": 1.5, "s(2.5e9)": 2.5, "ms(NULL)": nil, "ns('5ms')": int64(5e6), "ns('1d')": int64(24 * time.Hour),
		"ns('2026-11-21T14:41:00Z')": began.UnixNano(), "ns('2026-11-21 14:41')": began.UnixNano(), "iso(ns('2026-11-21T14:41:00Z'))": "2026-11-21T14:41:00.000000000Z",
		"abs(ago('0s') - ago('1h') - ns('1h')) < ns('1h')": int64(1), "ago('1w') < ago('6d')": int64(1), "ago('1h') > ns('2020-01-01')": int64(1),
		"replace('a-b-c', '-', '++')": "a++b++c", "replace('abc', '', 'x')": "abc", "replace(121, 1, 3)": "323", "replace(NULL, 'a', 'b')": nil,
		"instr('größer', 'ß')": int64(4), "instr('abc', 'x')": int64(0), "instr(x'c3b6ff', x'ff')": int64(3), "instr('abc', '')": int64(1), "instr(NULL, 'a')": nil,
		"trim('xxöx', 'x')": "ö", "ltrim('xxax', 'x')": "ax", "rtrim('xxax', 'ax')": "", "trim('  a ')": "a",
	} {
		got, err := r.SQL(context.Background(), "SELECT "+text, SQLLimits{})
		if err != nil || len(got.Rows) != 1 || got.Rows[0][0] != want {
			t.Errorf("%s = %+v, %v; want %v", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"ms('x')": "not a number", "ago('soon')": "not a duration", "iso('x')": "not an integer", "percentile(1, 101)": "not a quantile", "percentile(-1, 0.5)": "negative value -1",
		"percentile('a', 0.5)": "not an integer", "percentile(1, 'a')": "not a quantile",
	} {
		if res, err := r.SQL(context.Background(), "SELECT "+text, SQLLimits{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s = %+v, %v; want an error with %q", text, res, err, why)
		}
	}
	for text, why := range map[string]string{
		"op_stats('soon')": "is not a time", "op_stats(NULL, NULL, 'x')": "group by", "quantile('none')": "unknown operation", "quantile(NULL, 'x')": "not a quantile",
		"timeline(0)": "not a duration", "timeline('x')": "not a duration", "timeline(1.5)": "not a duration", "timeline(1)": "more than 5000 steps", "timeline('1s', 'none')": "unknown operation",
	} {
		if res, err := r.SQL(context.Background(), "SELECT * FROM "+text, SQLLimits{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s = %+v, %v; want an error with %q", text, res, err, why)
		}
	}
}

// A result that is too large is truncated and says so; one of exactly the maximum size is complete.
func TestCaps(t *testing.T) {
	r := sqlDB(t)
	numbers := func(n int) string {
		return fmt.Sprintf("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT %d) SELECT x FROM c", n)
	}
	for _, tt := range []struct {
		text string
		l    SQLLimits
		rows int
		cut  string
	}{
		{numbers(10), SQLLimits{Rows: 10}, 10, ""},
		{numbers(11), SQLLimits{Rows: 10}, 10, "more than 10 rows"},
		{numbers(10_001), SQLLimits{}, 10_000, "more than 10000 rows"},
		{numbers(10), SQLLimits{Bytes: 160}, 10, ""},
		{numbers(11), SQLLimits{Bytes: 160}, 10, "more than 160 bytes"},
		{"SELECT 'äö'", SQLLimits{Bytes: 20}, 1, ""},
		{"SELECT x'00ff'", SQLLimits{Bytes: 17}, 0, "more than 17 bytes"},
	} {
		res, err := r.SQL(context.Background(), tt.text, tt.l)
		if err != nil || len(res.Rows) != tt.rows || !strings.Contains(res.Cut, tt.cut) || (res.Cut == "") != (tt.cut == "") {
			t.Errorf("%s: %+v, %v", tt.text, res, err)
		}
	}
}

// Values keep their types.
func TestValues(t *testing.T) {
	r := sqlDB(t)
	got := first(t, r, "SELECT NULL, 1, -9223372036854775808, 1.5, 'größer', '', x'00ff', x'', 1 /* ; */ + 1 -- ; end")
	want := []any{nil, int64(1), int64(-1 << 63), 1.5, "größer", "", []byte{0, 255}, []byte(nil), int64(2)}
	for i, v := range got {
		if b, ok := v.([]byte); ok && len(b) == 0 {
			got[i] = []byte(nil)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{"SELECT 1;", "SELECT 1; -- end", "SELECT 1 ; ; /* end */ ;", "\ufeffSELECT 1", "/* a /* b */ SELECT 1 -- end", "VALUES(1)", "WITH x AS (SELECT 1) SELECT * FROM x"} {
		if got := first(t, r, text); got[0] != int64(1) {
			t.Errorf("%s: %v", text, got)
		}
	}
	if res := ask(t, r, "EXPLAIN QUERY PLAN SELECT * FROM events WHERE op = 'cudaMalloc'"); len(res.Rows) != 1 {
		t.Errorf("a plan of %v", res.Rows)
	}
	if res := ask(t, r, "SELECT 1 AS größe, 2 AS größe;"); !slices.Equal(res.Columns, []string{"größe", "größe"}) {
		t.Errorf("columns are %v", res.Columns)
	}
}
