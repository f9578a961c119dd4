package proc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
)

// Unread is a process of which the kernel's files cannot be read.
type Unread struct {
	PID uint32
	Err error
}

// Scan lists the selected processes that map a CUDA library, in order of PID, with Libraries
// filled. It skips processes that end meanwhile, and those whose maps it may not read, which
// happens only without CAP_SYS_PTRACE. A process that cannot be read hides no other one.
func (f FS) Scan(ctx context.Context, sel Selector, names Names) (found []Process, unread []Unread, err error) {
	pids, err := f.pids()
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(pids)
	s := scan{f: f, sel: sel, names: names}
	if len(sel.PIDs) > 0 && !sel.Alone {
		if s.family, _, err = f.family(ctx, sel.PIDs, pids); err != nil {
			return nil, nil, err
		}
	}
	readEach(f.patience(), pids, func(pid uint32) (Process, error) {
		if err := ctx.Err(); err != nil {
			return Process{}, err
		}
		return s.look(pid)
	}, func(pid uint32, p Process, err error) {
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrExited) || errors.Is(err, errNotSelected) || isDenied(err):
		case err != nil:
			unread = append(unread, Unread{pid, err})
		case s.family[pid] || sel.Wants(&p):
			found = append(found, p)
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return found, unread, nil
}

var errNotSelected = errors.New("not selected")

// scan is safe for concurrent use.
type scan struct {
	f      FS
	sel    Selector
	names  Names
	family map[uint32]bool // PIDs of the selector and all their descendants
}

// look reads a process, and stops as soon as the selector rejects it, except by Only.
func (s *scan) look(pid uint32) (p Process, err error) {
	if len(s.sel.PIDs) > 0 && !s.family[pid] && !slices.Contains(s.sel.PIDs, pid) {
		return p, errNotSelected
	}
	d, err := s.f.openPID(pid)
	if err != nil {
		return p, err
	}
	defer d.close()
	var scratch [4096]byte
	st, buf, err := d.status(scratch[:])
	if err != nil {
		return p, err
	}
	p = Process{PID: pid, UID: st.uid, Kernel: st.kernel}
	if st.kernel || st.zombie || !s.family[pid] && !s.sel.Match(&p) {
		return p, errNotSelected
	}
	libs, err := d.libraries(s.names)
	if err != nil {
		return p, err
	}
	if !UsesCUDA(libs) {
		return p, errNotSelected
	}
	p, err = s.f.facts(d, &st, buf)
	p.Libraries = libs
	return p, err
}

// Descendants lists the live descendants of processes, in order of PID.
func (f FS) Descendants(ctx context.Context, of []uint32) ([]uint32, error) {
	pids, err := f.pids()
	if err != nil {
		return nil, err
	}
	family, ended, err := f.family(ctx, of, pids)
	maps.DeleteFunc(family, func(pid uint32, _ bool) bool { return ended[pid] || slices.Contains(of, pid) })
	return slices.Sorted(maps.Keys(family)), err
}

// family returns those of pids that are in of or descend from it, and those that have ended. An
// ended main thread may leave live threads and children.
func (f FS) family(ctx context.Context, of, pids []uint32) (family, ended map[uint32]bool, err error) {
	var buf []byte
	family, ended = map[uint32]bool{}, map[uint32]bool{}
	parent := make(map[uint32]uint32, len(pids))
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		var err error
		if buf, err = f.readFile(maxSmall, buf[:0], strconv.FormatUint(uint64(pid), 10), "stat"); err != nil {
			continue // it has ended
		}
		if st, err := parseStat(buf); err == nil {
			parent[pid], ended[pid] = st.ppid, st.ended
		}
	}
	for _, pid := range of {
		family[pid] = true
	}
	for _, pid := range pids {
		// The walk ends at PID 1 or at a missing parent. The bound is for a cycle, which a reused
		// number can make.
		for at, i := pid, 0; at != 0 && i < len(pids); at, i = parent[at], i+1 {
			if family[at] {
				family[pid] = true
				break
			}
		}
	}
	return family, ended, nil
}
