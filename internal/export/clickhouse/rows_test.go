package clickhouse

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// parse decodes a row.
func parse(t *testing.T, name string, b []byte) map[string]any {
	t.Helper()
	row, rest := parseNext(t, name, b)
	if len(rest) > 0 {
		t.Fatalf("%s: %d bytes are left", name, len(rest))
	}
	return row
}

// parseNext decodes the next row as ClickHouse does: by the types of the table's columns (RowBinary).
func parseNext(t *testing.T, name string, b []byte) (row map[string]any, rest []byte) {
	t.Helper()
	varint := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			t.Fatalf("%s: a length is missing", name)
		}
		b = b[size:]
		return n
	}
	var value func(kind string) any
	value = func(kind string) any {
		if of, ok := strings.CutPrefix(kind, "Nullable("); ok {
			null := b[0]
			if b = b[1:]; null == 1 {
				return nil
			}
			kind = strings.TrimSuffix(of, ")")
		}
		if of, ok := strings.CutPrefix(kind, "Array("); ok {
			var out []any
			for range varint() {
				out = append(out, value(strings.TrimSuffix(of, ")")))
			}
			return out
		}
		size := map[string]int{"UInt8": 1, "UInt32": 4, "Int32": 4, "UInt64": 8, "Int64": 8, "Float64": 8}[kind]
		if kind == "String" {
			size = int(varint())
		}
		if size > len(b) {
			t.Fatalf("%s: %s is cut", name, kind)
		}
		v := b[:size]
		b = b[size:]
		switch kind {
		case "String":
			return string(v)
		case "UInt8":
			return uint64(v[0])
		case "UInt32", "Int32":
			return uint64(binary.LittleEndian.Uint32(v))
		case "Float64":
			return math.Float64frombits(binary.LittleEndian.Uint64(v))
		}
		return binary.LittleEndian.Uint64(v)
	}
	out := map[string]any{}
	for _, c := range tableNamed(name).columns {
		out[c.Name] = value(c.Type)
	}
	return out, b
}

// Each value of a row is in the column of its name.
func TestRows(t *testing.T) {
	s := &query.Session{Session: segment.Session{ID: "s", Node: "n", Started: time.Unix(0, 5)}}
	op := events.Catalog[3].Op
	dur := &stats.Sketch{}
	for i := range int64(100) {
		dur.Add(1+i%50, 1)
	}
	row := appendRollup(nil, s, &query.OpStat{Time: time.Unix(30, 0), PID: 7, Op: op, Dur: dur,
		Sum: tick.Counts{Calls: 102, Done: 100, Errors: 3, Total: 1000, OnCPU: 100, Runnable: 200, Throttled: 300}})
	got := parse(t, "rollups", row)
	middles, counts := got["bucket_ns"].([]any), got["bucket_calls"].([]any)
	delete(got, "bucket_ns")
	delete(got, "bucket_calls")
	want := map[string]any{"session": "s", "node": "n", "start": uint64(30), "pid": uint64(7), "op": op.String(), "calls": uint64(102), "done": uint64(100),
		"errors": uint64(3), "total_ns": uint64(1000), "oncpu_ns": uint64(100), "runnable_ns": uint64(200), "throttled_ns": uint64(300), "blocked_ns": uint64(400),
		"p50_ns": uint64(25), "p99_ns": uint64(50), "max_ns": uint64(50)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a rollup, -want +got:\n%s", diff)
	}
	if len(middles) != 50 || len(counts) != 50 || middles[0] != uint64(1) || slices.ContainsFunc(counts, func(n any) bool { return n != uint64(2) }) {
		t.Errorf("buckets %v of %v calls, want 1 to 50 of 2", middles, counts)
	}
	c := &tick.Chain{ID: "c", Rule: "cpu-taken", Severity: tick.High, PID: 7, TID: 8, Op: op, From: time.Unix(0, 10), To: time.Unix(0, 20),
		Lost: 30, Confidence: 0.25, Culprits: []tick.Culprit{{What: "nobody"}}, Baseline: "usual"}
	state := causeOf(s, c)
	state.version = 21
	row = appendChain(nil, s, c, &state)
	want = map[string]any{"session": "s", "node": "n", "id": "c", "version": uint64(21), "rule": "cpu-taken", "severity": tick.High.String(), "pid": uint64(7), "tid": uint64(8),
		"op": op.String(), "from_ns": uint64(10), "to_ns": uint64(20), "lost_ns": uint64(30), "confidence": 0.25, "culprit": "nobody", "baseline": "usual"}
	if diff := cmp.Diff(want, parse(t, "chains", row)); diff != "" {
		t.Errorf("a chain, -want +got:\n%s", diff)
	}
}

// Each value of a request, a read and a label is in the column of its name, and unknown ones are NULL.
func TestKeyedRows(t *testing.T) {
	s := &query.Session{Session: segment.Session{ID: "s", Node: "n", Started: time.Unix(0, 5)}}
	of := func(name string, values []any) map[string]any {
		t.Helper()
		return parse(t, name, tableNamed(name).append(nil, values))
	}
	r := tick.Request{PID: 7, TID: 8, Port: 8000, Peer: netip.MustParseAddrPort("10.0.0.7:5"), Arrived: 100, Read: 1, Whole: 2, Head: 3, First: -1, Last: 9, Status: 204, Post: true, End: tick.ResponseNext}
	got := of("requests", query.AppendRequest(nil, s, &r))
	for name, want := range map[string]any{"node": "n", "session": "s", "timestamp": uint64(100), "pid": uint64(7), "tid": uint64(8), "port": uint64(8000), "peer": "10.0.0.7:5", "post": uint64(1),
		"status": uint64(204), "head_ns": uint64(3), "first_ns": nil, "last_ns": uint64(9), "ended": "next request", "engine_tid": nil, "after_tokens_ns": nil} {
		if got[name] != want {
			t.Errorf("%s of a request is %v, want %v", name, got[name], want)
		}
	}
	running := 3.0
	got = of("inference", inferenceRow(s, &tick.Inference{Time: time.Unix(0, 100), PID: 7, Engine: "vLLM", Model: "m", URL: "u", Why: "w\xff", Do: "d", Running: &running,
		FirstToken: &tick.Durations{Count: 4, Sum: 1.5, Buckets: []tick.DurationBucket{{Over: 0.25, UpTo: 0.5, Count: 3}, {Over: 0.5, Count: 1}}}}))
	for name, want := range map[string]any{"session": "s", "node": "n", "time_ns": uint64(100), "since_ns": nil, "pid": uint64(7), "url": "u", "engine": "vLLM", "model": "m", "why": "w?", "remedy": "d",
		"running": 3.0, "waiting": nil, "first_token_count": uint64(4), "first_token_sum": 1.5, "first_token_bucket": []any{0.5, math.Inf(1)}, "first_token_bucket_count": []any{uint64(3), uint64(1)},
		"decode_count": nil, "decode_bucket": []any(nil)} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s of a read, -want +got:\n%s", name, diff)
		}
	}
	want := map[string]any{"session": "s", "node": "n", "pid": uint64(7), "tid": uint64(8), "key": "tenant", "from_ns": uint64(10), "value": "a", "to_ns": uint64(20)}
	if diff := cmp.Diff(want, of("labels", labelRow(s, &tick.LabelSpan{PID: 7, TID: 8, Key: "tenant", Value: "a", From: 10, To: 20}))); diff != "" {
		t.Errorf("a label, -want +got:\n%s", diff)
	}
}
