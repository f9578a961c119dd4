package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Symbols are counted under their operation's name, and the result shows a difference in calls or
// errors.
func TestCompare(t *testing.T) {
	o := output{said: said{
		Calls:  map[string]uint64{"cuMemAlloc_v2": 3, "cuLaunchKernel": 10, "cuFuncGetAttribute": 1},
		Errors: map[string]uint64{"cuMemAlloc_v2": 1},
	}}
	s, err := last(strings.NewReader(`{"op":"cuMemFree"}
{"ops":[{"op":"cuLaunchKernel","calls":4}]}
{"final":true,"libraries":[{"path":"/l/libcuda.so.1","probes":80}],"ops":[
{"final":true,"libraries":[{"path":"/l/libcuda.so.1","probes":80}],"ops":[{"op":"cuLaunchKernel","calls":4},{"op":"cuLaunchKernel","calls":5},{"op":"cuMemAlloc","calls":3,"errors":1},{"op":"cuMemFree","calls":2}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := compare(o, s)
	want := trace{
		Rows: 80, Libraries: []string{"/l/libcuda.so.1"}, Others: map[string]uint64{"cuMemFree": 2},
		Calls: []count{
			{Op: "cuLaunchKernel", Made: 10, Seen: 9},
			{Op: "cuMemAlloc", Made: 3, MadeErrors: 1, Seen: 3, SeenErrors: 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A trace without its final line is an error.
func TestLastNeedsFinal(t *testing.T) {
	for _, lines := range []string{"", `{"ops":[]}`, "no JSON"} {
		if _, err := last(strings.NewReader(lines)); err == nil {
			t.Errorf("%q: got no error", lines)
		}
	}
}

// The verdicts of a test binary are counted, skips with their reasons.
func TestParse(t *testing.T) {
	got := parse(`=== RUN   TestA
    need.go:10: needs clang-14 in PATH
--- SKIP: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/x
    b_test.go:3: got 1
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/x (0.00s)
--- PASS: TestC (0.00s)
FAIL
`)
	want := suite{Passed: 1, Failed: []string{"TestB", "TestB/x"}, Skipped: []string{"TestA: needs clang-14 in PATH"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The median ratio is the ratio of the middle pair.
func TestMedianRatio(t *testing.T) {
	if got := medianRatio([]int64{30, 11, 20}, []int64{10, 10, 10}); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}
