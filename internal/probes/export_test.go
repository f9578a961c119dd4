package probes

import "github.com/cilium/ebpf"

// SetThread replaces the kernel's data on a thread.
func (t *Tracer) SetThread(tid uint32, s *ThreadState) error {
	return t.objects.Threads.Update(tid, s, ebpf.UpdateExist)
}
