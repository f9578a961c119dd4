package inference

import (
	"os"
	"strings"
	"testing"

	"ingero/internal/tick"
)

// The table of names in docs/design/inference.md has each name of the table here, in the row of its
// kind and the column of its server.
func TestDesignHasTheNames(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/inference.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{
		"running": "running requests", "waiting": "waiting requests", "kv_cache": "use of the KV cache, 0 to 1", "preemptions": "preemptions",
		"prompt_tokens": "prompt tokens", "generated_tokens": "generated tokens", "first_token": "time to first token", "between_tokens": "time between tokens",
		"request": "whole request", "queue": "in the queue", "prefill": "prefill", "decode": "decode",
	}
	columns := map[string]string{"vLLM": "vllm:", "SGLang": "sglang:", "TensorRT-LLM": "trtllm_", "TGI": "tgi_", "llama.cpp": "llamacpp:"}
	header, rows := rowsOf(string(page))
	for _, s := range servers {
		if s.engine == "Triton" { // its names are a list below the table, and those of vLLM
			continue
		}
		for kind, names := range s.names {
			cell := rows[kinds[kind]][header[s.engine]]
			if strings.HasPrefix(cell, "the same") {
				cell += rows[kinds[kind]][header["vLLM"]]
			}
			for _, n := range names {
				if want := strings.TrimPrefix(n.metric, columns[s.engine]); !strings.Contains(cell, want) {
					t.Errorf("%s, %s: %q lacks %s", s.engine, kind, cell, want)
				}
			}
		}
		for kind, row := range kinds {
			if cell := rows[row][header[s.engine]]; cell != "" && len(s.names[kind]) == 0 {
				t.Errorf("%s, %s: %q is not read", s.engine, kind, cell)
			}
		}
	}
	for _, s := range servers {
		if !strings.Contains(string(page), "| "+s.engine+" | `"+s.path+"` on ") {
			t.Errorf("the endpoint of %s is not %s", s.engine, s.path)
		}
	}
}

// rowsOf returns the columns of the table of names, and its cells by the first one.
func rowsOf(page string) (header map[string]int, rows map[string][]string) {
	header, rows = map[string]int{}, map[string][]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 6 && cells[1] == "vLLM":
			for i, name := range cells {
				header[name] = i
			}
		case len(cells) == 6 && len(header) > 0:
			rows[cells[0]] = cells
		}
	}
	return header, rows
}

// Each name of the one set is known, and no server's /metrics is read that changes what it returns.
func TestTable(t *testing.T) {
	known := map[string]bool{}
	for i := range tick.InferenceNumbers {
		known[tick.InferenceNumbers[i].Name] = true
	}
	for i := range tick.InferenceDurations {
		known[tick.InferenceDurations[i].Name] = true
	}
	for _, s := range servers {
		for kind := range s.names {
			if !known[kind] {
				t.Errorf("%s: unknown %s", s.engine, kind)
			}
		}
		if s.engine == "TensorRT-LLM" && s.path != "/prometheus/metrics" {
			t.Errorf("TensorRT-LLM: %s", s.path)
		}
	}
}
