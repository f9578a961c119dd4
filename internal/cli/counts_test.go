package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/query"
)

// opsOf sums the calls up of each operation of the runtime that a JSON text lists, wherever it does.
func opsOf(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	var all any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %.300q", err, text)
	}
	out := map[string]uint64{}
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, y := range x {
				walk(y)
			}
		case map[string]any:
			op, _ := x["op"].(string)
			if n, ok := x["calls"].(float64); ok && strings.HasPrefix(op, "cuda") {
				out[op] += uint64(n)
				return
			}
			for _, key := range []string{"operations", "processes", "ops"} {
				walk(x[key])
			}
		}
	}
	walk(all)
	return out
}

// surfaces are what each says of a window: query, explain, SQL, and what the API and MCP ask.
func (b *bench) surfaces(window ...string) map[string]map[string]uint64 {
	b.t.Helper()
	ask := func(args ...string) string {
		out, stderr, code := b.output(args...)
		if code != 0 {
			b.t.Fatalf("%v: %d, %s", args, code, stderr)
		}
		return out
	}
	out := map[string]map[string]uint64{
		"query":   opsOf(b.t, ask(append([]string{"query", "--json"}, window...)...)),
		"explain": opsOf(b.t, ask(append([]string{"explain", "--per-process", "--json"}, window...)...)),
	}
	args := "(NULL, NULL)"
	if len(window) > 0 {
		args = "('" + window[1] + "', '" + window[3] + "')"
	}
	r, err := query.Open(b.db())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	res, err := r.SQL(b.t.Context(), "SELECT op, sum(count) FROM op_stats"+args+" WHERE op LIKE 'cuda%' GROUP BY op", query.SQLLimits{Rows: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	out["op_stats"] = map[string]uint64{}
	for _, row := range res.Rows {
		out["op_stats"][row[0].(string)] = uint64(row[1].(int64))
	}
	return out
}

// However many calls have a record, and whether the ring had room for them, all that tells how many
// there were says what the program made: of the whole recording, and of two parts of it in sum.
func TestCountsOfAllSurfaces(t *testing.T) {
	for name, flags := range map[string][]string{
		"all":          {"--sampling-rate", "1"},
		"one in 64":    {"--sampling-rate", "64"},
		"a small ring": {"--sampling-rate", "1", "--ringbuf-size", "64k"},
		"as it comes":  {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			target := b.train("--steps", "400")
			c := b.ingero(append([]string{"trace", "--pid", pid(target)}, flags...)...)
			b.tracing(1)
			target.Say("go")
			made := counts(t, target)
			if _, stderr, code := finish(t, c); code != 0 {
				t.Fatal(code, stderr)
			}
			r, err := query.Open(b.db())
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Session(t.Context(), "")
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			whole := b.surfaces()
			for surface, got := range whole {
				for op, n := range made {
					if got[op] != n {
						t.Errorf("%s: %d calls of %s, the program made %d", surface, got[op], op, n)
					}
				}
			}
			stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
			middle := s.Started.Add(s.Ended.Sub(s.Started) * 2 / 3)
			first := b.surfaces("--from", stamp(s.Started.Add(-time.Hour)), "--to", stamp(middle))
			second := b.surfaces("--from", stamp(middle), "--to", stamp(s.Ended.Add(time.Hour)))
			for surface := range whole {
				if d := cmp.Diff(first["query"], first[surface]) + cmp.Diff(second["query"], second[surface]); d != "" {
					t.Errorf("of a part %s says (-query +this): %s", surface, d)
				}
				for op, n := range made {
					if sum := first[surface][op] + second[surface][op]; sum != n {
						t.Errorf("%s: %d and %d calls of %s in two parts, the program made %d", surface, first[surface][op], second[surface][op], op, n)
					}
				}
			}
		})
	}
}
