package session

import (
	"cmp"
	"slices"
	"sync"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// policies are those of stacks, in the words of settings.
var policies = map[probes.StackPolicy]string{probes.StacksNone: "false", probes.StacksSlow: "slow", probes.StacksAll: "all"}

// StackPolicy implements [Stacked].
func (l *Live) StackPolicy() string { return policies[l.Probes.Stacks] }

// Framer implements [Stacked].
func (l *Live) Framer() Framer { return &l.frames }

// maxMapped bounds the processes whose mappings are kept in mind.
const maxMapped = 256

// framer says where the addresses of a stack lie.
type framer struct {
	fs    proc.FS
	mu    sync.Mutex
	procs map[uint32]*image
}

// image is what a process has mapped.
type image struct {
	maps  []proc.Mapping // by start
	until int64          // when it ended or ran another program: Unix ns, 0: it has not
}

// seen reads what a process has mapped, while it is there: it may have ended when its
// stacks are asked for. It is called from any goroutine.
func (f *framer) seen(pid uint32) *image {
	maps, err := f.fs.Maps(pid, true)
	if err != nil {
		return nil
	}
	slices.SortFunc(maps, func(a, b proc.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	p := &image{maps: maps}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(pid, p)
	return p
}

// keep notes what a process has mapped. mu is held.
func (f *framer) keep(pid uint32, p *image) {
	if len(f.procs) >= maxMapped || f.procs == nil {
		f.procs = map[uint32]*image{}
	}
	f.procs[pid] = p
}

// Life implements [Framer]. What is told of late may still be asked for.
func (f *framer) Life(e tick.ProcEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.procs[e.PID]
	switch {
	case e.Kind == 0:
		clear(f.procs)
	case p == nil:
	case e.Kind == tick.ProcForked:
		f.keep(e.Peer, &image{maps: p.maps})
	case p.until == 0:
		p.until = e.Time
	}
}

// Frames implements [Framer].
func (f *framer) Frames(s *tick.RawStack) []events.Frame {
	f.mu.Lock()
	p := f.procs[s.PID]
	ended := p != nil && p.until != 0
	stale := ended && s.Time > p.until // it runs another program, or is another process
	f.mu.Unlock()
	read := func() {
		if now := f.seen(s.PID); now != nil {
			p = now
		}
		ended = true // once is enough
	}
	if p == nil || stale {
		p = &image{}
		read()
	}
	out := make([]events.Frame, len(s.IPs))
	for i, ip := range s.IPs {
		at := &out[i]
		at.Kind, at.IP = events.FrameNative, ip
		m := find(p.maps, ip)
		if m == nil && !ended {
			read()
			m = find(p.maps, ip)
		}
		if m != nil {
			at.Module, at.Offset = m.Path, ip-m.Start+m.Offset
		}
	}
	return out
}

// find returns the mapping that an address lies in, nil where there is none.
func find(maps []proc.Mapping, ip uint64) *proc.Mapping {
	n, found := slices.BinarySearchFunc(maps, ip, func(m proc.Mapping, ip uint64) int {
		switch {
		case m.End <= ip:
			return -1
		case m.Start > ip:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &maps[n]
}
