package inference

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

// parseText parses a response as the reader does.
func parseText(t *testing.T, engine, text string) (*state, error) {
	t.Helper()
	s, _, err := (&target{engine: engine}).parse(strings.NewReader(text))
	return s, err
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Numbers and durations of a server are mapped to the one set.
func TestServers(t *testing.T) {
	small := "0.1:2 1:3 +Inf:4, 4 in 5 s"
	all := func(names string) map[string]string {
		out := map[string]string{}
		for name := range strings.FieldsSeq(names) {
			out[name] = small
		}
		return out
	}
	merged := "0.01:1 0.1:6 1:9 +Inf:10, 10 in 4.55 s"
	tgi := all("between_tokens request queue prefill")
	tgi["decode"] = "0.1:20 1:30 +Inf:40, 40 in 50 s"
	for file, c := range map[string]struct {
		engine    string
		numbers   map[string]float64
		durations map[string]string
	}{
		"vllm": {"vLLM", map[string]float64{"running": 15, "waiting": 4, "kv_cache": 0.93, "preemptions": 8, "prompt_tokens": 1200, "generated_tokens": 560},
			map[string]string{"first_token": merged, "between_tokens": merged, "request": merged, "queue": merged, "prefill": merged, "decode": merged}},
		"vllm_old": {"vLLM", map[string]float64{"running": 2, "kv_cache": 0.5}, map[string]string{"between_tokens": "0.01:3 +Inf:4, 4 in 0.1 s"}},
		"sglang": {"SGLang", map[string]float64{"running": 7, "waiting": 1, "kv_cache": 0.6, "preemptions": 3, "prompt_tokens": 100, "generated_tokens": 50},
			all("first_token between_tokens request queue")},
		"sglang_dp_attention": {"SGLang", map[string]float64{"running": 12, "waiting": 3, "kv_cache": 0.9}, nil},
		"sglang_priority":     {"SGLang", map[string]float64{"running": 10, "waiting": 3, "generated_tokens": 50}, nil},
		"tensorrt_llm": {"TensorRT-LLM", map[string]float64{"running": 6, "waiting": 2, "kv_cache": 0.75, "prompt_tokens": 70, "generated_tokens": 30},
			all("first_token between_tokens request queue prefill decode")},
		"tgi":            {"TGI", map[string]float64{"running": 8, "waiting": 1, "prompt_tokens": 90, "generated_tokens": 40}, tgi},
		"llama_cpp":      {"llama.cpp", map[string]float64{"running": 1, "waiting": 3, "kv_cache": 0.125, "prompt_tokens": 11, "generated_tokens": 22}, nil},
		"triton":         {"Triton", map[string]float64{"waiting": 3}, nil},
		"triton_trt_llm": {"Triton", map[string]float64{"running": 4, "waiting": 9}, nil},
	} {
		t.Run(file, func(t *testing.T) {
			s, err := parseText(t, c.engine, fixture(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.numbers, s.numbers); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
			got := map[string]string{}
			for name, h := range s.durations {
				got[name] = h.String()
			}
			if len(got)+len(c.durations) > 0 {
				if diff := cmp.Diff(c.durations, got); diff != "" {
					t.Errorf("durations (-want +got):\n%s", diff)
				}
			}
			_, engine, err := (&target{}).parse(strings.NewReader(fixture(t, file)))
			if engine != c.engine && !strings.HasPrefix(file, "vllm") || err != nil {
				t.Errorf("without a name, the server is %q: %v", engine, err)
			}
		})
	}
}

// String returns the bounds with their cumulative counts.
func (h histogram) String() string {
	var b strings.Builder
	for _, x := range h.bounds {
		fmt.Fprintf(&b, "%v:%d ", x.upTo, x.below)
	}
	return fmt.Sprintf("%s, %d in %.4g s", strings.TrimSpace(b.String()), h.count, h.sum)
}

// vllmText is a response of vLLM.
func vllmText(running, tokens, fast, slow int) string {
	return fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running %d
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} %d
vllm:time_to_first_token_seconds_bucket{le="0.5"} %d
vllm:time_to_first_token_seconds_bucket{le="+Inf"} %d
vllm:time_to_first_token_seconds_sum %d
vllm:time_to_first_token_seconds_count %d
`, running, tokens, fast, fast+slow, fast+slow, fast+slow, fast+slow)
}

// Counters and durations are the growth since the last read. After a restart of the counters, the
// growth of that read is unknown.
func TestGrowth(t *testing.T) {
	var last *state
	at := time.Unix(100, 0)
	for i, c := range []struct {
		text    string
		running float64
		tokens  string
		first   string
	}{
		{vllmText(1, 100, 10, 1), 1, "unknown", "unknown"},
		{vllmText(2, 160, 18, 3), 2, "60", "10: 0-0.1:8 0.1-0.5:2"},
		{vllmText(0, 160, 18, 3), 0, "0", "0:"},
		{vllmText(3, 5, 1, 0), 3, "unknown", "unknown"},
		{vllmText(3, 25, 1, 4), 3, "20", "4: 0.1-0.5:4"},
	} {
		now, err := parseText(t, "vLLM", c.text)
		if err != nil {
			t.Fatal(err)
		}
		x := tick.Inference{Time: at.Add(5 * time.Second), Since: at}
		now.fill(&x, last)
		last = now
		tokens, first := "unknown", "unknown"
		if x.GeneratedTokens != nil {
			tokens = fmt.Sprint(*x.GeneratedTokens)
		}
		if d := x.FirstToken; d != nil {
			first = fmt.Sprintf("%d:", d.Count)
			for _, b := range d.Buckets {
				first += fmt.Sprintf(" %v-%v:%d", b.Over, b.UpTo, b.Count)
			}
		}
		if *x.Running != c.running || tokens != c.tokens || first != c.first {
			t.Errorf("read %d: running %v, tokens %s, first token %s; want %v, %s, %s", i, *x.Running, tokens, first, c.running, c.tokens, c.first)
		}
	}
}

// Values that cannot be right are unknown.
func TestInvalidValues(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"not a number":     {"vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n", "map[waiting:1] 0"},
		"infinite":         {"vllm:num_requests_running +Inf\nvllm:num_requests_waiting 1\n", "map[waiting:1] 0"},
		"negative":         {"vllm:num_requests_running -4\nvllm:num_requests_waiting 1\n", "map[waiting:1] 0"},
		"infinite sum":     {"vllm:num_requests_running{e=\"0\"} 1e308\nvllm:num_requests_running{e=\"1\"} 1e308\nvllm:num_requests_waiting 1\n", "map[waiting:1] 0"},
		"full cache":       {"vllm:kv_cache_usage_perc 1.0001\n", "map[kv_cache:1] 0"},
		"falling buckets":  {"vllm:num_requests_waiting 1\n" + histogramText(`0.1:5 0.5:3 +Inf:5`), "map[waiting:1] 0"},
		"descending":       {"vllm:num_requests_waiting 1\n" + histogramText(`0.5:3 0.1:4 +Inf:5`), "map[waiting:1] 0"},
		"twice a bound":    {"vllm:num_requests_waiting 1\n" + histogramText(`0.5:3 0.5:4 +Inf:5`), "map[waiting:1] 0"},
		"no such bound":    {"vllm:num_requests_waiting 1\n" + histogramText(`NaN:3 +Inf:5`), "map[waiting:1] 1"},
		"more than all":    {"vllm:num_requests_waiting 1\n" + histogramText(`0.5:9 +Inf:9`), "map[waiting:1] 0"},
		"not all":          {"vllm:num_requests_waiting 1\n" + histogramText(`0.5:3 +Inf:4`), "map[waiting:1] 0"},
		"valid":            {histogramText(`0.5:3 +Inf:5`), "map[] 1"},
		"twice a type":     {"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n# TYPE vllm:num_requests_running gauge\n", "error"},
		"garbage":          {"\x00\xff<html>\nvllm:num_requests_running one\n", "error"},
		"nothing":          {"", "error"},
		"another server":   {"sglang:num_running_reqs 1\n", "error"},
		"garbage of other": {"other{ 1 2 3\nvllm:num_requests_waiting 1\n", "map[waiting:1] 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseText(t, "vLLM", c.text)
			got := "error"
			if err == nil {
				got = fmt.Sprint(s.numbers, len(s.durations))
			}
			if got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func histogramText(buckets string) string {
	out := "# TYPE vllm:time_to_first_token_seconds histogram\n"
	for b := range strings.FieldsSeq(buckets) {
		le, n, _ := strings.Cut(b, ":")
		out += fmt.Sprintf("vllm:time_to_first_token_seconds_bucket{le=%q} %s\n", le, n)
	}
	return out + "vllm:time_to_first_token_seconds_sum 1\nvllm:time_to_first_token_seconds_count 5\n"
}

// A response with too many series or labels, or too long a line, is refused.
func TestResponseLimits(t *testing.T) {
	labels := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d = \"\",", i)
		}
		return "vllm:num_requests_running{" + b.String() + "} 1\n"
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"many series": {strings.Repeat("vllm:num_requests_running 1\n", maxSeries+1), errTooLong},
		"long line":   {strings.Repeat("x", maxLine+1), errNotText},
		"many labels": {labels(maxLabels + 1), errLabels},
		"labels":      {labels(maxLabels), nil},
	} {
		if _, err := parseText(t, "vLLM", c.text); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// No response crashes the parser, or gives an invalid read.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"vllm", "sglang", "tgi", "triton_trt_llm"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Add([]byte(histogramText("0.1:1 +Inf:5")), []byte(histogramText("0.1:4 +Inf:5")))
	f.Add([]byte(histogramText("0.1:1 +Inf:1")), []byte(strings.ReplaceAll(histogramText("0.1:1 +Inf:1"), "count 5", "count 9")))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		last, _, err := (&target{}).parse(bytes.NewReader(before))
		if err != nil {
			last = nil
		}
		now, _, err := (&target{}).parse(bytes.NewReader(after))
		if err != nil {
			return
		}
		var x tick.Inference
		now.fill(&x, last)
		for i := range tick.InferenceNumbers {
			if v := *tick.InferenceNumbers[i].Value(&x); v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0) {
				t.Errorf("%s is %v", tick.InferenceNumbers[i].Name, *v)
			}
		}
		for i := range tick.InferenceDurations {
			d := *tick.InferenceDurations[i].Value(&x)
			n := uint64(0)
			for _, b := range buckets(d) {
				if n += b.Count; math.IsInf(b.Over, 0) || math.IsInf(b.UpTo, 0) {
					t.Errorf("%s has a bucket from %v to %v", tick.InferenceDurations[i].Name, b.Over, b.UpTo)
				}
			}
			if d != nil && n > d.Count {
				t.Errorf("%s has %d durations in buckets, and %d in all", tick.InferenceDurations[i].Name, n, d.Count)
			}
		}
	})
}

func buckets(d *tick.Durations) []tick.DurationBucket {
	if d == nil {
		return nil
	}
	return d.Buckets
}
