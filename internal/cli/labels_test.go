package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// labelledDB records two seconds: process 4821 is in epoch 1, then in epoch 2; process 5032 has the
// tenant a.
func labelledDB(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	at := began.UnixNano()
	err = x.db.Batch(&tick.Batch{Labels: []tick.Label{{Time: at, PID: 4821, Key: "epoch", Value: "1"}, {Time: at, PID: 5032, Key: "tenant", Value: "a"},
		{Time: at + 1e9, PID: 4821, Key: "epoch", Value: "2"}}})
	for range 2 {
		if err == nil {
			err = x.second()
		}
	}
	if err == nil {
		err = x.end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// The read API selects and groups by labels, and refuses what it would ignore.
func TestLabelsInTheAPI(t *testing.T) {
	s := serve(t, labelledDB(t), func() time.Time { return began.Add(3 * time.Second) }, nil, "--addr", ":0", "--node", "gpu-7")
	for _, c := range []struct{ query, want string }{
		{"label=epoch%3D1", "cudaLaunchKernel= 200, cuLaunchKernel= 200, cudaStreamSynchronize= 50"},
		{"label=epoch%3D2,tenant%3Da", ""},
		{"label=tenant%3Da", "cudaMalloc= 2"},
		{"op=cudaStreamSync,cudaMalloc&by=label:epoch", "cudaStreamSynchronize=1 50, cudaStreamSynchronize=2 50, cudaMalloc= 2"},
	} {
		status, text := s.ask("GET", "/api/v1/ops?since=1m&"+c.query, "", nil)
		var ops wire.Operations
		if err := json.Unmarshal([]byte(text), &ops); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v, %s", c.query, status, err, text)
		}
		got := map[string]bool{}
		for i := range ops.Operations {
			o := &ops.Operations[i]
			got[fmt.Sprintf("%s=%s %d", o.Op.Op, o.Label, o.Calls)] = true
		}
		want := map[string]bool{}
		for one := range strings.SplitSeq(c.want, ", ") {
			if one != "" {
				want[one] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", c.query, got, want)
		}
	}
	for _, path := range []string{"/api/v1/timeline?label=epoch%3D1", "/api/v1/memory?label=epoch%3D1", "/api/v1/ops?label=epoch", "/api/v1/ops?by=epoch", "/api/v1/ops?sums=1&by=label:epoch", "/api/v1/ops?label=" + url.QueryEscape("Epoch=1")} {
		if status, text := s.ask("GET", path, "", nil); status != 400 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// An assistant selects and groups by labels.
func TestLabelsForAssistants(t *testing.T) {
	a := pipes(t, labelledDB(t), "2025-06-18")
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"label": []string{"epoch=1"}, "op": []string{"cudaStreamSync"}}, "50"},
		{map[string]any{"label": []string{"tenant=a"}}, "2"},
		{map[string]any{"by_label": "epoch", "op": []string{"cudaStreamSync"}}, "epoch=1 50 epoch=2 50"},
	} {
		r := a.call("get_trace_stats", c.args)
		var got []string
		for _, row := range r.rows {
			for i, name := range r.columns {
				if (name == "job" || name == "calls") && row[i] != nil && row[i] != "" {
					got = append(got, fmt.Sprint(row[i]))
				}
			}
		}
		if text := strings.Join(got, " "); text != c.want && text != "epoch=2 50 epoch=1 50" {
			t.Errorf("%v: %q, want %q: %s", c.args, text, c.want, r.text)
		}
	}
	if r := a.call("get_trace_stats", map[string]any{"label": []string{"tenant=b"}}); r.refused || len(r.rows) > 0 {
		t.Errorf("no such label: %s", r.text)
	}
}

// query names the value of each group, and top shows only the processes with the label.
func TestLabelsOnTheTerminal(t *testing.T) {
	db := labelledDB(t)
	for _, c := range []struct {
		args string
		has  []string
		not  string
	}{
		{"query --by label:epoch", []string{"epoch=1 · 250 calls, 200 more nested", "epoch=2 · 250 calls", "no epoch · 2 calls"}, "tenant"},
		{"query --label epoch=1 --per-process", []string{"train.py (4821) · 250 calls"}, "embed"},
		{"query --label epoch=1 --calls --order time --limit 1000 --csv", []string{"cudaStreamSynchronize"}, "cudaMalloc"},
		{"query --by label:epoch --csv --op cudaMalloc", []string{",max_ns,label\n", ",250000,\n"}, "epoch"},
		{"query --label epoch=1 --by label:epoch --csv --op cudaStreamSync", []string{",1\n"}, ",2\n"},
		{"top --once --label tenant=a", []string{"embed", "2 calls"}, "train.py"},
		{"top --once --label epoch=2", []string{"train.py", "250 calls"}, "embed"},
		{"query --label epoch", []string{`--label: "epoch" is not a label: write key=value`}, "calls"},
		{"query --by label:Epoch", []string{`--by cannot be "label:Epoch"`}, "calls"},
		{"query --label epoch=1 --show memory", []string{"--label and --show cannot be combined"}, "GB"},
		{"top --once --label epoch", []string{"write key=value"}, "calls"},
		{"annotate epoch=1", []string{"annotate requires either --pid or a command"}, "Note"},
		{"annotate --pid 1 Epoch=1", []string{`the key "Epoch" must begin with a-z`}, "Note"},
		{"annotate --pid 1", []string{"no label to set or to clear"}, "Note"},
		{"annotate --pid 1 epoch", []string{`"epoch" is not a label: write KEY=VALUE`}, "Note"},
	} {
		out := temporary(t)
		env := func(k string) string { return map[string]string{"INGERO_DB": db}[k] }
		e := &Env{Lock: testPlace(t), Args: strings.Fields(c.args), Stdin: out, Stdout: out, Stderr: out, Getenv: env, Now: func() time.Time { return began.Add(3 * time.Second) }}
		e.run(t.Context())
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s", c.args, want, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: has %q:\n%s", c.args, c.not, text)
		}
	}
}
