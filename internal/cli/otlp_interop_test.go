//go:build interop

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// jaegerSpan is a span in the format of Jaeger's API.
type jaegerSpan struct {
	TraceID, SpanID, OperationName string
	Duration                       int64 // us
	References                     []jaegerLink
	Tags                           []struct {
		Key   string
		Value any
	}
}

type jaegerLink struct{ RefType, TraceID, SpanID string }

func (s *jaegerSpan) tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// jaegerSpans returns all spans of a service in Jaeger.
func jaegerSpans(t *testing.T, j *testkit.JaegerServer, service string) (out []jaegerSpan) {
	t.Helper()
	code, body := get(t, j.API+"/api/traces?limit=10000&lookback=1h&service="+url.QueryEscape(service))
	var answer struct {
		Data []struct{ Spans []jaegerSpan }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v: %.200s", code, err, body)
	}
	for i := range answer.Data {
		out = append(out, answer.Data[i].Spans...)
	}
	return out
}

// With --otlp-traces all, a real Jaeger receives a span per driver call over each protocol, as many
// as the program counts. Failed calls are errors, with double frees and out of memory identified.
// Metrics and logs arrive too.
func TestOTLPJaeger(t *testing.T) {
	b := newBench(t)
	j := testkit.Jaeger(t)
	for _, tt := range []struct{ protocol, at string }{{"http/protobuf", j.HTTP}, {"http/json", j.HTTP}, {"grpc", j.GRPC}} {
		t.Run(tt.protocol, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "adv-"+strings.ReplaceAll(tt.protocol, "/", "-")) // its name is the service
			testkit.CopyProgram(t, program, b.stack.Program("advanced"))
			stdout, stderr, code := b.output("run", "--otlp", tt.at, "--otlp-protocol", tt.protocol, "--otlp-traces", "all", "--record=false", "--",
				"env", "LD_LIBRARY_PATH="+b.stack.Dir, program, "--rounds", "3", "--module", filepath.Join(b.stack.Dir, "vecAdd.cubin"))
			if code != 0 || !strings.Contains(stderr, "OTLP: metrics, traces, logs to http://"+tt.at+" ("+tt.protocol+")") {
				t.Fatalf("code %d:\n%s", code, stderr)
			}
			var counts struct{ Calls, Failed map[string]int }
			if err := json.Unmarshal([]byte(stdout), &counts); err != nil {
				t.Fatalf("%v: %s", err, stdout)
			}
			all := jaegerSpans(t, j, filepath.Base(program)[:min(15, len(filepath.Base(program)))])
			got, failed, doubles, memory, linked := map[string]int{}, map[string]int{}, 0, 0, 0
			ids := map[string]bool{}
			for i := range all {
				ids[all[i].SpanID] = true
			}
			for i := range all {
				s := &all[i]
				if strings.HasPrefix(s.OperationName, "chain ") && slices.ContainsFunc(s.References, func(r jaegerLink) bool { return ids[r.SpanID] }) {
					linked++
				}
				got[s.OperationName]++
				if s.tag("error") == true {
					failed[s.OperationName]++
				}
				if s.tag("ingero.double_free") == true && s.tag("otel.status_description") == "double free: CUDA_ERROR_INVALID_VALUE" {
					doubles++
				}
				if name := s.tag("gpu.cuda.kernel.name"); s.OperationName == "cuLaunchKernel" && s.tag("error") != true && name != "vecAdd" {
					t.Errorf("a launch is of %v", name)
				}
				if s.OperationName == "cuMemAlloc" && s.tag("error.type") == "CUDA_ERROR_OUT_OF_MEMORY" {
					memory++
				}
			}
			for symbol, n := range counts.Calls {
				name := strings.TrimSuffix(symbol, "_v2")
				if got[name] != n && got[name] != 0 || got[name] == 0 && slices.Contains([]string{"cuMemAlloc", "cuMemFree", "cuLaunchKernel", "cuMemcpyHtoD"}, name) {
					t.Errorf("%d spans of %s, want %d", got[name], name, n)
				}
				if got[name] > 0 && failed[name] != counts.Failed[symbol] {
					t.Errorf("%d errors of %s, want %d", failed[name], name, counts.Failed[symbol])
				}
			}
			if doubles != 1 || memory != 1 || linked == 0 {
				t.Errorf("%d double frees and %d times out of memory, want 1 and 1; %d chains with their evidence", doubles, memory, linked)
			}
		})
	}
	for _, what := range []string{"ingero.chain_begin", "Name: gpu.cuda.operation.duration", "DataType: ExponentialHistogram", "Name: system.cpu.utilization"} {
		testkit.Eventually(t, what, func() bool { return strings.Contains(j.Stderr(), what) })
	}
}

// A runtime call is the parent of the driver call inside it.
func TestOTLPNesting(t *testing.T) {
	b := newBench(t)
	j := testkit.Jaeger(t)
	_, stderr, code := b.output("run", "--otlp", j.HTTP, "--record=false", "--", b.stack.Program("train"), "--steps", "60")
	if code != 0 {
		t.Fatalf("code %d:\n%s", code, stderr)
	}
	all := jaegerSpans(t, j, "train")
	byID := map[string]*jaegerSpan{}
	for i := range all {
		byID[all[i].SpanID] = &all[i]
	}
	nested := 0
	for i := range all {
		s := &all[i]
		for _, r := range s.References {
			p := byID[r.SpanID]
			if strings.HasPrefix(s.OperationName, "chain ") {
				continue
			}
			if r.RefType != "CHILD_OF" || p == nil || p.TraceID != s.TraceID {
				t.Errorf("%s has a reference to %v", s.OperationName, r)
				continue
			}
			if strings.HasPrefix(s.OperationName, "cu") && strings.HasPrefix(p.OperationName, "cuda") {
				nested++
			}
		}
	}
	if nested == 0 || len(all) > 1000 {
		t.Errorf("%d spans, %d of the driver inside one of the runtime", len(all), nested)
	}
}

// A call of a Python program has its line of code.
func TestOTLPPython(t *testing.T) {
	b := newBench(t)
	python := testkit.NeedPython(t, "3.11")
	j := testkit.Jaeger(t)
	_, stderr, code := b.output("run", "--otlp", j.HTTP, "--otlp-traces", "all", "--stack=all", "--record=false", "--", python, filepath.Join(b.stack.Dir, "train.py"), "--steps", "5")
	if code != 0 {
		t.Fatalf("code %d:\n%s", code, stderr)
	}
	lines := map[string]int{}
	all := jaegerSpans(t, j, filepath.Base(python))
	for i := range all {
		if s := &all[i]; s.OperationName == "cudaLaunchKernel" {
			file, _ := s.tag("code.file.path").(string)
			lines[fmt.Sprintf("%s:%v %v", filepath.Base(file), s.tag("code.line.number"), s.tag("code.function.name"))]++
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no launch among %d spans:\n%s", len(all), stderr)
	}
	for at := range lines {
		if !strings.Contains(at, ".py:") || strings.Contains(at, "nil") {
			t.Errorf("launches are from %v", lines)
		}
	}
}

// A collector accepts the configuration in deploy/otel.
func TestCollectorConfig(t *testing.T) {
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.JaegerValidate(t, filepath.Join(root, "deploy", "otel", "collector.yaml")); err != nil {
		t.Error(err)
	}
}
