package sim

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

// sumTo returns the sum over n calls of base + (i mod 1024), the argument that calls varies.
func sumTo(n, base int64) int64 {
	whole, rest := n/1024, n%1024
	return n*base + whole*(1023*1024/2) + rest*(rest-1)/2
}

func TestCallsAreExact(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		op    string
		sum   int64 // base of the checksum; -1: none
		undo  string
		extra []string
	}{
		{"cudaLaunchKernel", 1, "", nil},
		{"cudaLaunchKernel_ptsz", 1, "", nil},
		{"__cudaLaunchKernel", 1, "", nil},
		{"cudaLaunchKernelExC", 1, "", nil},
		{"cudaLaunchCooperativeKernel", 1, "", nil},
		{"cuLaunchKernel", 1, "", nil},
		{"cuLaunchKernelEx", 1, "", nil},
		{"cudaMalloc", 256, "cudaFree", nil},
		{"cudaFree", 256, "cudaMalloc", nil},
		{"cudaMallocHost", 256, "cudaFreeHost", nil},
		{"cudaHostAlloc", 256, "cudaFreeHost", nil},
		{"cudaMallocManaged", 256, "cudaFree", nil},
		{"cudaMallocAsync", 256, "cudaFreeAsync", nil},
		{"cuMemAlloc_v2", 256, "cuMemFree_v2", nil},
		{"cuMemFree_v2", 256, "cuMemAlloc_v2", nil},
		{"cuMemAllocAsync", 256, "cuMemFreeAsync", nil},
		{"cudaMemcpy", 4096, "", []string{"--size", "4096"}},
		{"cudaMemcpy_ptds", 256, "", nil},
		{"cudaMemcpyAsync", 256, "", nil},
		{"d2h", 256, "", nil},
		{"d2hsync", 256, "", nil},
		{"cuMemcpyHtoD_v2", 256, "", nil},
		{"cuMemcpyDtoH_v2", 256, "", nil},
		{"cuMemcpyDtoD_v2_ptds", 256, "", nil},
		{"cuMemcpyHtoDAsync_v2", 256, "", nil},
		{"cuMemcpyDtoHAsync_v2", 256, "", nil},
		{"cuMemcpyDtoDAsync_v2", 256, "", nil},
		{"cudaMemset", 256, "", nil},
		{"cudaMemsetAsync", 256, "", nil},
		{"cuMemsetD8_v2", 256, "", nil},
		{"cuMemsetD8Async", 256, "", nil},
		{"cudaStreamSynchronize", -1, "", nil},
		{"cudaStreamQuery", -1, "", nil},
		{"cudaDeviceSynchronize", -1, "", nil},
		{"cudaEventSynchronize", -1, "", nil},
		{"cudaGraphLaunch", -1, "", nil},
		{"cuStreamSynchronize", -1, "", nil},
		{"cuStreamQuery", -1, "", nil},
		{"cuCtxSynchronize", -1, "", nil},
		{"cuEventSynchronize", -1, "", nil},
		{"cuGraphLaunch", -1, "", nil},
	} {
		t.Run(tt.op, func(t *testing.T) {
			const n = 3001
			got := s.result(t, "calls", append([]string{tt.op, strconv.Itoa(n), "--zero"}, tt.extra...)...)
			sum := int64(0)
			if tt.sum >= 0 {
				sum = sumTo(n, tt.sum)
			}
			want(t, got, map[string]int64{"calls": n, "errors": 0, "checksum": sum})
			if op, _ := got["op"].(string); strings.HasPrefix(tt.op, "cu") && op != tt.op {
				t.Errorf("op = %q, want %q", op, tt.op)
			}
			if also, _ := got["also"].(map[string]any); tt.undo != "" && counts(also).n(tt.undo) != n {
				t.Errorf("also = %v, want %d %s", also, n, tt.undo)
			}
		})
	}
}

func TestCallsSplitOverThreads(t *testing.T) {
	s := extract(t)
	for _, threads := range []string{"1", "3", "8"} {
		got := s.result(t, "calls", "launch", "100003", "--zero", "--threads", threads)
		want(t, got, map[string]int64{"calls": 100003, "errors": 0})
	}
	if got := s.result(t, "calls", "launch", "10", "--layer", "driver", "--zero"); got["op"] != "cuLaunchKernel" {
		t.Errorf("launch of the driver layer is %v", got["op"])
	}
	got := s.result(t, "calls", "__cudaLaunchKernel", "100", "--zero", "--lib", s.Libcudart13)
	want(t, got, map[string]int64{"calls": 100, "errors": 0})
}

// N calls take at least N-1 intervals of the rate, less one burst.
func TestCallsKeepTheRate(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		n, rate int64
		threads string
	}{{200, 500, "1"}, {20000, 100000, "1"}, {20000, 100000, "2"}} {
		got := s.result(t, "calls", "launch", strconv.FormatInt(tt.n, 10), "--zero",
			"--rate", strconv.FormatInt(tt.rate, 10), "--threads", tt.threads)
		least := time.Duration(tt.n)*time.Second/time.Duration(tt.rate) - 5*time.Millisecond
		if took := time.Duration(got.n("elapsed_ns")); took < least {
			t.Errorf("%d calls at %d a second took %v, less than %v", tt.n, tt.rate, took, least)
		}
		want(t, got, map[string]int64{"calls": tt.n, "errors": 0})
	}
}

func TestPlannedFailures(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		name, fail, op string
		errors, first  int64
	}{
		{"one driver call", "cuMemAlloc:4=2", "malloc", 1, 2},
		{"one runtime call", "cudaMalloc:4=2", "malloc", 1, 2},
		{"all from one on", "cudaMemcpyAsync:8+=1", "memcpyasync", 3, 1},
		{"two rules", "cuMemAlloc:2=2,cudaMalloc:5=46", "malloc", 2, 2},
		{"a lost context stays lost", "cuLaunchKernel:3=700", "launch", 8, 700},
		{"another operation", "cuMemFree:1=1", "launch", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.result(t, "calls", "INGERO_SIM_FAIL="+tt.fail, tt.op, "10", "--zero")
			want(t, got, map[string]int64{"calls": 10, "errors": tt.errors, "first_error": tt.first})
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	s := extract(t)
	got := s.result(t, "calls", "INGERO_SIM_MEM=1M", "malloc", "10", "--size", "2097152", "--zero")
	want(t, got, map[string]int64{"calls": 10, "errors": 10, "first_error": 2})
	got = s.result(t, "calls", "INGERO_SIM_MEM=4M", "malloc", "10", "--size", "2097152", "--zero")
	want(t, got, map[string]int64{"calls": 10, "errors": 0})
}

func TestNoDevices(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("calls", "INGERO_SIM_DEVICES=0", "malloc", "1"))
	if err := c.Wait(); err == nil || !strings.Contains(c.Stderr(), "error 100") {
		t.Errorf("without devices: %v, %q", err, c.Stderr())
	}
}

func TestLate(t *testing.T) {
	s := extract(t)
	n := map[string]int64{"cudaMalloc": 300, "cudaFree": 300, "cudaDeviceSynchronize": 300, "errors": 0}
	want(t, s.result(t, "late", "--delay-ms", "0", "--cycles", "3"), n)
	want(t, s.result(t, "late", "--delay-ms", "0", "--cycles", "3", "--lib", s.Libcudart13), n)
	want(t, s.result(t, "late", "--delay-ms", "0", "--cycles", "3", "--lib", s.Libcudart,
		"--copy", s.Program("copy.so.12")), n)

	c := testkit.Start(t, s.command("late", "--wait", "--calls", "5"))
	c.Line("ready ")
	c.Send("")
	c.Line("loaded ")
	c.Send("")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// Each case reports the expected counts of calls entered and returned.
func TestMulti(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		name                               string
		entered, returned, children, inner int64
	}{
		{"plain", 5, 5, 0, 0},
		{"fork-rule", 1, 1, 5, 0},
		{"fork-storm", 0, 0, 5, 0},
		{"exec-storm", 0, 0, 5, 0},
		{"thread-storm", 15, 15, 0, 0},
		{"fork-in-call", 8, 8, 5, 0},
		{"longjmp", 13, 8, 0, 0},
		{"siglongjmp", 13, 8, 0, 0},
		{"signal", 8, 8, 0, 5},
		{"altstack", 8, 8, 0, 5},
		{"nest", 3 + 5 + 20, 3 + 5 + 20, 0, 20},
		{"thread-exit", 8, 3, 0, 0},
		{"pthread-exit", 8, 3, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.result(t, "multi", "--case", tt.name, "--count", "5", "--depth", "4")
			want(t, got, map[string]int64{"entered": tt.entered, "returned": tt.returned, "errors": 0,
				"children": tt.children, "children_failed": 0, "inner": tt.inner})
		})
	}
	t.Run("exec-in-call", func(t *testing.T) {
		got := s.result(t, "multi", "--case", "exec-in-call", "--count", "3")
		want(t, got, map[string]int64{"entered": 10, "returned": 10})
	})
	t.Run("sigkill", func(t *testing.T) {
		if err := testkit.Start(t, s.command("multi", "--case", "sigkill")).Wait(); err == nil {
			t.Error("the process was not killed")
		}
	})
}

func TestMisuse(t *testing.T) {
	s := extract(t)
	out, _ := s.lines(t, "multi", "--case", "misuse")
	got := map[string]int64{}
	for _, c := range out {
		name, ok := c["mistake"].(string)
		if !ok {
			continue
		}
		got[name] = c.n("error")
		if c.n("last") != c.n("error") || c.n("then") != 0 {
			t.Errorf("cudaGetLastError after %v", c)
		}
	}
	expect := map[string]int64{
		"double_free": 1, "out_of_memory": 2, "bad_stream": 400, "unregistered_kernel": 98,
		"bad_shape": 9, "copy_too_long": 1, "bad_device": 101, "free_null": 0,
	}
	if diff := cmp.Diff(expect, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
