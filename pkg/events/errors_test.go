package events

import "testing"

func TestErrorName(t *testing.T) {
	for _, tt := range []struct {
		op   string
		code int32
		want string
	}{
		{"cudaMalloc", 2, "cudaErrorMemoryAllocation"}, {"cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY"}, {"cudaMalloc", 0, "cudaSuccess"},
		{"cuGraphLaunch", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {"cudaGraphLaunch", 700, "cudaErrorIllegalAddress"},
		{"cudaMalloc", 35, "cudaErrorInsufficientDriver"}, {"cuMemAlloc", 100, "CUDA_ERROR_NO_DEVICE"}, {"cudaMalloc", 12345, "cudaError 12345"},
		{"cuMemAlloc", -1, "CUresult -1"}, {"cudaStreamSynchronize", 999, "cudaErrorUnknown"}, {"cudaStreamSynchronize", 600, "cudaErrorNotReady"},
	} {
		o, ok := OpByName(tt.op)
		if got := ErrorName(o, tt.code); !ok || got != tt.want {
			t.Errorf("ErrorName(%s, %d) = %q, want %q", tt.op, tt.code, got, tt.want)
		}
	}
}
