package native

import (
	"maps"
	"time"

	"ingero/internal/proc"
)

// bytes estimates the memory held, in bytes.
func (s *Symbolizer) bytes() (n int) {
	for _, m := range s.modules {
		n += m.bytes()
	}
	for _, p := range s.procs {
		n += p.bytes()
	}
	return n
}

func (mod *module) bytes() int {
	n := mod.cost + 512
	if mod.img != nil {
		n += mod.img.Bytes()
	}
	return n
}

func (p *process) bytes() int {
	return 256 + p.jit.bytes() + len(p.code)*mappingSize
}

// bound evicts the least recently used entries until the memory held is within the limit. Data from
// files goes first, since it can be read again; then data of processes.
func (s *Symbolizer) bound(now *process) {
	if !s.grew {
		return
	}
	s.grew = false
	for s.bytes() > s.limits.Bytes && s.drop(now) {
		s.figures.Dropped++
	}
}

// drop evicts one entry, and reports whether there was one.
func (s *Symbolizer) drop(now *process) bool {
	var open, known *module
	for _, m := range s.modules {
		if m.img != nil && m != s.vdso && (open == nil || m.used < open.used) {
			open = m
		}
		if m.cost > 0 && (known == nil || m.used < known.used) {
			known = m
		}
	}
	var oldest *process
	for _, p := range s.procs {
		if p != now && (oldest == nil || p.used < oldest.used) {
			oldest = p
		}
	}
	switch {
	case open != nil:
		_ = s.shut(open)
	case known != nil:
		known.answers, known.signals, known.cost = map[uint64]*answer{}, nil, 0
		clear(s.words)
	case oldest != nil:
		s.Forget(oldest.pid)
	case now != nil && now.jit != nil:
		now.jit = nil
	default:
		return false
	}
	return true
}

// Trim drops entries that have been idle. Call it now and then.
func (s *Symbolizer) Trim() {
	now := s.now()
	since := func(t time.Time) time.Duration { return now.Sub(t) }
	for c, m := range s.modules {
		if m.img != nil && m != s.vdso && since(m.asked) >= s.limits.Idle {
			_ = s.shut(m)
		}
		if m.users == 0 && since(m.left) >= 6*s.limits.Idle {
			_ = s.shut(m)
			delete(s.modules, c)
			maps.DeleteFunc(s.byKey, func(_ proc.Key, of *module) bool { return of == m })
			clear(s.words)
		}
	}
}
