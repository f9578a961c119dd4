package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Scan lists the selected processes that map a CUDA library, in order of PID,
// with Libraries filled. Processes that end meanwhile are left out, as are those
// whose maps may not be read; that only happens without CAP_SYS_PTRACE.
func (f FS) Scan(ctx context.Context, sel Selector, names Names) ([]Process, error) {
	pids, err := f.pids()
	if err != nil {
		return nil, err
	}
	slices.Sort(pids)
	s := scan{f: f, sel: sel, names: names, family: map[uint32]bool{}}
	if len(sel.PIDs) > 0 && !sel.Alone {
		if err := s.findFamily(ctx, pids); err != nil {
			return nil, err
		}
	}
	var out []Process
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := s.look(pid)
		switch {
		case errors.Is(err, ErrGone) || errors.Is(err, errNotSelected) || isDenied(err):
		case err != nil:
			return nil, err
		default:
			out = append(out, p)
		}
	}
	return out, nil
}

var errNotSelected = errors.New("not selected")

type scan struct {
	f      FS
	sel    Selector
	names  Names
	family map[uint32]bool // PIDs of the selector and all that descend from them
	buf    []byte
}

// look reads no more of a process than it takes to leave it out.
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
	buf, err := d.read("status", s.buf[:0], maxSmall)
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

// findFamily marks the selected PIDs and all that descend from them.
func (s *scan) findFamily(ctx context.Context, pids []uint32) error {
	parent := make(map[uint32]uint32, len(pids))
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf, err := s.f.readFile(maxSmall, s.buf[:0], strconv.FormatUint(uint64(pid), 10), "stat")
		s.buf = buf
		if err != nil {
			continue // it ended
		}
		if st, err := parseStat(buf); err == nil {
			parent[pid] = st.ppid
		}
	}
	for _, pid := range s.sel.PIDs {
		s.family[pid] = true
	}
	for _, pid := range pids {
		// The walk ends at PID 1 or at a hole; the bound is for a parent that
		// was replaced meanwhile and closes a circle.
		for at, i := pid, 0; at != 0 && i < len(pids); at, i = parent[at], i+1 {
			if s.family[at] {
				s.family[pid] = true
				break
			}
		}
	}
	return nil
}
