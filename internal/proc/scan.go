package proc

import (
	"context"
	"errors"
	"fmt"
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
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		p, err := s.look(pid)
		switch {
		case errors.Is(err, ErrExited) || errors.Is(err, errNotSelected) || isDenied(err):
		case err != nil:
			unread = append(unread, Unread{pid, err})
		default:
			found = append(found, p)
		}
	}
	return found, unread, nil
}

var errNotSelected = errors.New("not selected")

type scan struct {
	f      FS
	sel    Selector
	names  Names
	family map[uint32]bool // PIDs of the selector and all their descendants
	buf    []byte
}

// look reads a process, and stops as soon as the selector rejects it.
func (s *scan) look(pid uint32) (Process, error) {
	if len(s.sel.PIDs) > 0 && !s.family[pid] && !slices.Contains(s.sel.PIDs, pid) {
		return Process{}, errNotSelected
	}
	d, err := s.f.openPID(pid)
	if err != nil {
		return Process{}, err
	}
	defer d.close()
	st, err := s.status(d)
	if err != nil {
		return Process{}, err
	}
	p := Process{PID: pid, UID: st.uid, Kernel: st.kernel}
	if st.kernel || st.zombie || !s.family[pid] && !s.sel.Match(&p) {
		return Process{}, errNotSelected
	}
	libs, err := d.libraries(s.names)
	if err != nil {
		return Process{}, err
	}
	if !UsesCUDA(libs) {
		return Process{}, errNotSelected
	}
	if p, err = s.f.facts(d, &st, s.buf); err != nil {
		return Process{}, err
	}
	if !s.family[pid] && !s.sel.Wants(&p) {
		return Process{}, errNotSelected
	}
	p.Libraries = libs
	return p, nil
}

func (s *scan) status(d pidDir) (status, error) {
	buf, err := d.read("status", s.buf[:0], maxStatus)
	s.buf = buf
	if err != nil {
		return status{}, err
	}
	st, err := parseStatus(buf)
	if err != nil {
		return status{}, fmt.Errorf("%s/status: %w", d.root, err)
	}
	return st, nil
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
