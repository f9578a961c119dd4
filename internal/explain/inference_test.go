package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

func number(v float64) *float64 { return &v }

// serverReads are two reads of a server with requests, and a failed one of another.
func serverReads() []tick.Inference {
	at := time.Date(2026, 11, 27, 7, 0, 0, 0, time.UTC)
	one := tick.Inference{Time: at, PID: 4821, Engine: "vLLM", Model: "Qwen/Qwen2.5-7B", URL: "http://localhost:8000/metrics", Running: number(1), Waiting: number(0)}
	two := one
	two.Time, two.Since = at.Add(5*time.Second), at
	two.Running, two.Waiting, two.KVCache, two.Preemptions, two.PromptTokens, two.GeneratedTokens = number(12), number(4), number(0.93), number(8), number(6000), number(2800)
	two.FirstToken = &tick.Durations{Count: 100, Sum: 20, Buckets: []tick.DurationBucket{{Over: 0.1, UpTo: 0.2, Count: 98}, {Over: 1, UpTo: 2, Count: 2}}}
	two.Request = &tick.Durations{Count: 10, Sum: 50}
	three := tick.Inference{Time: at.Add(5 * time.Second), PID: 4900, Engine: "SGLang", URL: "http://localhost:30000/metrics",
		Why: "the server answered with HTTP status 404: it does not serve metrics", Do: "start SGLang with --enable-metrics"}
	return []tick.Inference{one, two, three}
}

// The report has a block for each inference server, with its own figures, or why there are none.
func TestServersInReport(t *testing.T) {
	var sums tick.Servers
	sums.Add(serverReads())
	got := Report(&Input{Servers: sums.List()}, Options{})
	want := `
Metrics of vLLM with Qwen/Qwen2.5-7B (4821), as the server reports them:
  - 12 running, 4 waiting, KV cache 93.0 % full
  - 1,200 prompt tokens/s, 560 generated tokens/s, 8 preemptions
  - first token: p50 151 ms, p99 1.50 s (100)
  - request: mean 5.00 s (10)

Metrics of SGLang (4900), as the server reports them:
  - not readable: the server answered with HTTP status 404: it does not serve
    metrics; start SGLang with --enable-metrics
`
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The live table has a line for each inference server: its last read, unless that is old.
func TestServersInLiveTable(t *testing.T) {
	reads := serverReads()
	var seen Seen
	seen.Tick(&tick.Tick{Inference: reads})
	got := Live(&tick.Tick{Time: reads[2].Time}, &seen, Options{Width: 200})
	for _, want := range []string{
		"vLLM with Qwen/Qwen2.5-7B (4821): 12 running, 4 waiting, KV cache 93.0 % full, 1,200 prompt tokens/s, 560 generated tokens/s, 8 preemptions, first token p50 151 ms, p99 1.50 s",
		"SGLang (4900): not readable: the server answered with HTTP status 404: it does not serve metrics; start SGLang with --enable-metrics",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if got := Live(&tick.Tick{Time: reads[2].Time.Add(time.Hour)}, &seen, Options{Width: 200}); strings.Contains(got, "vLLM") {
		t.Errorf("an old read is shown:\n%s", got)
	}
}

// JSON has the figures, and quantiles in seconds. Unknown ones are absent.
func TestServersInJSON(t *testing.T) {
	b, err := TickJSON(&tick.Tick{Inference: serverReads()})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"inference":[{"pid":4821,"engine":"vLLM"`, `"covered_ns":5000000000,"preemptions":8,"prompt_tokens":6000,"generated_tokens":2800,"first_token":{"count":100,"sum_s":20,"p50_s":0.151`,
		`"request":{"count":10,"sum_s":50}`, `"why":"the server answered with HTTP status 404: it does not serve metrics","do":"start SGLang with --enable-metrics"}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}
