package events

import "testing"

// Calls that results depend on always have a record; frequent fast calls do not.
func TestAlways(t *testing.T) {
	for name, want := range map[string]bool{
		"cudaStreamSynchronize": true, "cuCtxSynchronize": true, "cudaEventSynchronize": true, "cudaMemcpy": true, "cuMemcpyDtoH": true,
		"cudaMalloc": true, "cudaFreeAsync": true, "cudaGraphInstantiate": true, "cudaStreamCreate": true, "cudaStreamWaitEvent": true,
		"cuModuleLoadData": true, "ncclAllReduce": true, "ncclCommInitRank": true, "cudaEventQuery": true, "cuStreamQuery": true,
		"cudaLaunchKernel": false, "cuLaunchKernel": false, "cudaGraphLaunch": false, "cudaMemcpyAsync": false, "cuMemcpyHtoDAsync": false,
		"cudaMemsetAsync": false, "cudaEventRecord": false,
	} {
		op, ok := OpByName(name)
		if !ok {
			t.Errorf("no operation %s", name)
			continue
		}
		if why := op.Row().Always(); (why != "") != want {
			t.Errorf("%s: %q, want a reason: %v", name, why, want)
		}
	}
}
