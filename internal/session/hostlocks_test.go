package session_test

import (
	"maps"
	"strconv"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/tick"
)

// Each refusal of a file lock has the process that took the conflicting lock.
func TestHostLocks(t *testing.T) {
	t.Parallel()
	const n = 40
	dir := t.TempDir()
	hostWorker(t, nil, "hold", dir, "read")
	holder := hostWorker(t, nil, "hold", dir, "write")
	c := hostWorker(t, nil, "try", dir, strconv.Itoa(n))
	r := watchHost(t, c, probes.Options{})
	c.Send("go")
	c.Line("done")
	r.stop(t, c)
	got := map[tick.HostKey]uint64{}
	for _, s := range r.host.List() {
		if s.Kind == tick.HostLockRefused && int(s.PID) == c.PID() {
			got[s.HostKey] += s.Count
		}
	}
	key := func(file string, holder int) tick.HostKey {
		return tick.HostKey{Kind: tick.HostLockRefused, PID: uint32(c.PID()), Sender: uint32(holder), Object: file}
	}
	want := map[tick.HostKey]uint64{key("a.lock", holder.PID()): n, key("b.lock", holder.PID()): 2 * n, key("the-lock-of-an-open-file", holder.PID()): n}
	if !maps.Equal(got, want) {
		t.Errorf("refusals %v, want %v", got, want)
	}
	for _, p := range r.last.Others {
		if int(p.PID) == holder.PID() && p.Comm == "hostwork" {
			return
		}
	}
	t.Errorf("the holder has no name: %+v", r.last.Others)
}
