package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"ingero/internal/testkit"
)

// counter returns a function that counts tokens as an assistant does.
func counter(t *testing.T, name string) func(string) int {
	t.Helper()
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	enc, err := tiktoken.GetEncoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(s string) int { return len(enc.EncodeOrdinary(s)) }
}

// In the median, telegraphic replies have at most 40 % of the tokens of sentences, and diagnose
// has at most 600. The golden files have each tool's replies in both forms; docs/guides/mcp.md
// has the table. (Row 90.)
func TestMCPReplies(t *testing.T) {
	testkit.LeakCheck(t)
	a := pipes(t, incidentDB(t), "", "--test-report", testReportFile(t))
	count := counter(t, tiktoken.MODEL_O200K_BASE)
	id := a.chainID()
	var all, table strings.Builder
	var ratios []float64
	table.WriteString("| tool | telegraphic, bytes | tokens | sentences, bytes | tokens | share of tokens |\n|---|---|---|---|---|---|\n")
	for _, c := range mcpCalls {
		if c.live || c.words != "" {
			continue
		}
		args := map[string]any{}
		for k, v := range withChain(c.args, id) {
			args[k] = v
		}
		short := a.call(c.name, args)
		args["tsc"] = false
		args["max_tokens"] = 8000
		long := a.call(c.name, args)
		if c.name == "diagnose" && count(short.text) > 600 {
			t.Errorf("diagnose takes %d tokens", count(short.text))
		}
		fmt.Fprintf(&all, "== %s\n%s-- sentences\n%s", c.name, short.text, long.text)
		ratio := float64(count(short.text)) / float64(count(long.text))
		if len(short.rows) > 0 { // empty replies have equal forms
			ratios = append(ratios, ratio)
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %.0f %% |\n", c.name, len(short.text), count(short.text), len(long.text), count(long.text), 100*ratio)
	}
	slices.Sort(ratios)
	if median := ratios[len(ratios)/2]; median > 0.40 {
		t.Errorf("telegraphic notation takes %.1f %% of the tokens of sentences in the median, want at most 40:\n%s", 100*median, table.String())
	}
	testkit.Golden(t, "mcp/replies.txt", all.String())
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "mcp.md"))
	if err != nil || !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/guides/mcp.md lacks this table, %v:\n%s", err, table.String())
	}
}

// No answer exceeds its token budget by either tokenizer, and cursors lead through all rows, each
// once.
func TestMCPBudget(t *testing.T) {
	testkit.LeakCheck(t)
	a := pipes(t, incidentDB(t), "")
	counts := []func(string) int{counter(t, tiktoken.MODEL_O200K_BASE), counter(t, tiktoken.MODEL_CL100K_BASE)}
	const statement = "SELECT id, op, timestamp, duration_ns FROM events ORDER BY timestamp LIMIT 60"
	for _, budget := range []int{200, 500, 2000, 8000, 1 << 30} {
		for _, tsc := range []bool{true, false} {
			args := map[string]any{"sql": statement, "tsc": tsc, "max_tokens": budget}
			seen := map[any]bool{}
			for {
				r := a.call("run_sql", args)
				b, _ := json.Marshal(map[string]any{"facts": r.facts, "columns": r.columns, "rows": r.rows, "next": r.next})
				for _, count := range counts {
					if n := max(count(r.text), count(string(b))); n > min(budget, 8000) {
						t.Fatalf("budget %d, tsc %v: %d tokens", budget, tsc, n)
					}
				}
				for _, row := range r.rows {
					if seen[row[0]] {
						t.Fatalf("row %v comes again", row)
					}
					seen[row[0]] = true
				}
				if r.next == "" {
					break
				}
				args["cursor"] = r.next
			}
			if len(seen) != 60 {
				t.Errorf("budget %d, tsc %v: %d rows", budget, tsc, len(seen))
			}
		}
	}
	r := a.call("run_sql", map[string]any{"sql": statement, "max_tokens": 200})
	for _, args := range []map[string]any{{"sql": "SELECT 1", "cursor": r.next}, {"sql": statement, "cursor": "x"}, {"sql": statement, "cursor": strings.Repeat("A", 40)}} {
		if r := a.call("run_sql", args); !r.refused || !strings.Contains(r.text, "cursor") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// For each demo recording, diagnose alone answers correctly and completely: the cause, the
// culprit's name and PID, the cost and the fix, or that nothing is wrong.
func TestMCPDiagnose(t *testing.T) {
	rules := map[string]struct{ rule, who string }{
		"incident": {"cpu-taken", "hog"}, "cold-start": {"cold-start", ""}, "memcpy-bottleneck": {"copy-heavy", ""}, "periodic-spike": {"alloc-slow", "cudaMalloc"},
		"cpu-contention": {"cpu-taken", "hog"}, "gpu-steal": {"gpu-shared", "loop"}, "train": {},
	}
	count := counter(t, tiktoken.MODEL_O200K_BASE)
	for i := range scenarios {
		x := &scenarios[i]
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			want, listed := rules[x.name]
			path := filepath.Join(t.TempDir(), "x.db")
			if err := recordScenario(path, x); err != nil {
				t.Fatal(err)
			}
			r := pipes(t, path, "").call("diagnose", nil)
			if n := count(r.text); n > 600 || !listed {
				t.Errorf("%d tokens: %s", n, r.text)
			}
			rule, _ := r.facts["rule"].(string)
			if rule != want.rule {
				t.Fatalf("the rule is %q, want %q: %s", rule, want.rule, r.text)
			}
			if rule == "" {
				if !strings.HasPrefix(r.text, "ok, nothing is wrong") || !strings.Contains(r.text, "Nothing slowed") {
					t.Errorf("got %s", r.text)
				}
				return
			}
			lost, _ := r.facts["lost_ns"].(float64)
			if lost < 1e6 || r.facts["fix"] == nil || r.facts["confidence"] == nil || len(r.rows) == 0 {
				t.Errorf("got %s", r.text)
			}
			process := want.who != "cudaMalloc" // otherwise it is a call
			if want.who != "" && (r.rows[0][0] != want.who || process && (r.rows[0][1] == nil || r.rows[0][2] == nil)) {
				t.Errorf("the culprit is %v: %s", r.rows[0], r.text)
			}
		})
	}
}
