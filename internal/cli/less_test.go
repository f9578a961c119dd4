package cli

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// less is the missing data of the first chain that recordLess records.
const less = "data is incomplete since 14:41:00 UTC (host-off: disks, reclaim, signals and sockets)"

// recordLess records a process with two chains; the more severe one was judged with less data.
func recordLess(t *testing.T) string {
	t.Helper()
	now := recordedAt
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: "s", Node: "gpu-7", Started: now, Mode: "trace"}})
	if err != nil {
		t.Fatal(err)
	}
	op, _ := events.OpByName("cudaStreamSynchronize")
	chain := func(id string, lost time.Duration, severity tick.Severity, baseline string) tick.Chain {
		return tick.Chain{ID: id, Rule: "cpu-taken", Severity: severity, PID: 4821, TID: 4821, Op: op, From: recordedAt, To: recordedAt.Add(900 * time.Millisecond), Lost: lost, LostMin: lost, LostMax: 2 * lost,
			Window: time.Minute, Excess: lost, Steps: 10, Slow: 3, Confidence: 0.5, Baseline: baseline,
			Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("stress-ng")}, Lost: lost}}}
	}
	now = now.Add(time.Second)
	last := &tick.Tick{Time: now, Started: recordedAt, Seq: 1, Final: true, Processes: []tick.Process{{PID: 4821, Comm: "python3"}},
		Chains: []tick.Chain{chain("c-less", 400*time.Millisecond, tick.High, "a normal step takes 12 ms"+tick.JudgedWithLess+less), chain("c-all", 40*time.Millisecond, tick.Low, "a normal step takes 12 ms")}}
	if err := errors.Join(db.Tick(last), db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// A chain judged with less data says so in all readers of a recording, with its interval and
// confidence, also after a merge or a backup. Other chains say nothing.
func TestJudgedWithLessIsKept(t *testing.T) {
	made := recordLess(t)
	dir := t.TempDir()
	paths := map[string]string{"recorded": made, "merged": filepath.Join(dir, "merged.db"), "backed up": filepath.Join(dir, "backup.db")}
	for _, args := range [][]string{{"merge", "-o", paths["merged"], made}, {"backup", "--db", made, "-o", paths["backed up"]}} {
		if code, _, stderr := command(t, later, nil, args...); code != 0 {
			t.Fatalf("%v: %d, %s", args, code, stderr)
		}
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			t.Run("explain", func(t *testing.T) {
				code, text, stderr := command(t, later, nil, "explain", "--chains", "--db", path)
				if flat := strings.Join(strings.Fields(text), " "); code != 0 || strings.Count(flat, tick.JudgedWithLess[2:]+less) != 1 || !strings.Contains(flat, "400 ms to 800 ms") {
					t.Errorf("%d, %s: %s", code, stderr, text)
				}
				code, text, stderr = command(t, later, nil, "explain", "--chains", "--db", path, "--json")
				if code != 0 {
					t.Fatal(code, stderr)
				}
				checkLess(t, text)
			})
			t.Run("API", func(t *testing.T) {
				_, text := serve(t, path, later, nil, "--addr", ":0").ask("GET", "/api/v1/chains?from=2026-11-20T14:00:00Z&to=2026-11-20T15:00:00Z", "", nil)
				checkLess(t, text)
			})
			t.Run("MCP", func(t *testing.T) {
				a := pipes(t, path, "")
				for _, tool := range []string{"diagnose", "explain_chain"} {
					args := map[string]any{"tsc": false}
					if tool == "explain_chain" {
						args["id"] = "c-less"
					}
					if r := a.call(tool, args); r.refused || !strings.Contains(r.text, tick.JudgedWithLess[2:]+"data is incomplete") {
						t.Errorf("%s: %s", tool, r.text)
					}
				}
				if r := a.call("explain_chain", map[string]any{"id": "c-all"}); r.refused || strings.Contains(r.text, "judged with less") {
					t.Error(r.text)
				}
			})
			t.Run("SQL", func(t *testing.T) {
				r, err := query.Open(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				res, err := r.SQL(t.Context(), "SELECT id, confidence, lost_max_ns FROM chains WHERE baseline LIKE '%judged with less: data is incomplete%'", query.SQLLimits{Rows: 10})
				if err := errors.Join(err, r.Close()); err != nil {
					t.Fatal(err)
				}
				if len(res.Rows) != 1 || res.Rows[0][0] != "c-less" || res.Rows[0][1] != 0.5 || res.Rows[0][2] != int64(800*time.Millisecond) {
					t.Errorf("rows %v", res.Rows)
				}
			})
		})
	}
}

// checkLess checks the chains of a JSON text.
func checkLess(t *testing.T, text string) {
	t.Helper()
	var all struct {
		Chains []struct {
			ID         string
			Less       string `json:"judged_with_less"`
			LostMaxNS  int64  `json:"lost_max_ns"`
			Confidence float64
		}
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all.Chains) != 2 {
		t.Fatalf("%v in %s", err, text)
	}
	if c := all.Chains[0]; c.ID != "c-less" || c.Less != less || c.LostMaxNS != int64(800*time.Millisecond) || c.Confidence != 0.5 {
		t.Errorf("%+v", c)
	}
	if c := all.Chains[1]; c.ID != "c-all" || c.Less != "" {
		t.Errorf("%+v", c)
	}
}
