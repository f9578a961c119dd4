package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"ingero/internal/probes"
	"ingero/pkg/events"
)

// watch attaches probes, and returns the function that detaches them. If poll is not nil, the
// caller calls it every few milliseconds in between.
type watch func(pid uint32) (stop func() error, poll func(), err error)

// target is a function in a library.
type target struct {
	path string
	lib  events.Library
	name string
}

// floor attaches a pair of empty probes to each function: where ingero would attach its own, or to
// the first byte, as other tools do.
func floor(targets []target, firstByte bool) watch {
	return func(uint32) (func() error, func(), error) {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err != nil {
			return nil, nil, err
		}
		closers := []io.Closer{prog}
		stop := func() error {
			var errs []error
			for _, c := range closers {
				errs = append(errs, c.Close())
			}
			return errors.Join(errs...)
		}
		for _, t := range targets {
			x, err := link.OpenExecutable(t.path)
			if err != nil {
				return nil, nil, errors.Join(err, stop())
			}
			opts := &link.UprobeOptions{}
			if !firstByte {
				o, err := object(t)
				if err != nil {
					return nil, nil, errors.Join(err, stop())
				}
				opts.Address, _, err = probes.Where(o, t.name)
				_ = o.File.(*os.File).Close()
				if err != nil {
					return nil, nil, errors.Join(err, stop())
				}
			}
			for _, attach := range []func(string, *ebpf.Program, *link.UprobeOptions) (link.Link, error){x.Uprobe, x.Uretprobe} {
				l, err := attach(t.name, prog, opts)
				if err != nil {
					return nil, nil, errors.Join(err, stop())
				}
				closers = append(closers, l)
			}
		}
		return stop, nil, nil
	}
}

// how selects the launch probes to leave out.
type how struct {
	once    bool // no probes on the runtime's launches
	counted bool // launches counted at entry only
}

// traced attaches ingero's probes to the functions, and to the other rows of o.Rows.
func traced(targets []target, o probes.Options) watch { return tracedSo(targets, o, how{}) }

// without detaches some probes after the program's first launches, which tell the tracer what it
// needs to do so.
func without(tr *probes.Tracer, pid uint32, attached map[events.Library]*probes.Attached, h how) error {
	if h.once {
		rows := map[int]bool{}
		for i, r := range tr.Rows() {
			if probes.Doubled(&r) {
				rows[i] = true
			}
		}
		if err := errors.Join(tr.SetOrigins(probes.OriginsDerive), attached[events.LibCudart].SetDetached(rows)); err != nil {
			return err
		}
	}
	if h.counted {
		return tr.LaunchesEntryOnly(pid, true)
	}
	return nil
}

func tracedSo(targets []target, o probes.Options, h how) watch {
	return func(pid uint32) (func() error, func(), error) {
		attached := map[events.Library]*probes.Attached{}
		for _, t := range targets {
			op, ok := events.OpByName(t.name)
			if !ok {
				return nil, nil, fmt.Errorf("no operation %s", t.name)
			}
			if !slices.ContainsFunc(o.Rows, func(r events.Row) bool { return r.Op == op }) {
				o.Rows = append(o.Rows, *op.Row())
			}
		}
		tr, err := probes.Open(o)
		if err != nil {
			return nil, nil, err
		}
		closers, unstack := []io.Closer{}, func() {}
		stop := func() error {
			unstack()
			var errs []error
			for _, c := range closers {
				errs = append(errs, c.Close())
			}
			return errors.Join(append(errs, tr.Close())...)
		}
		for _, t := range targets {
			a, err := attach(tr, t)
			if err != nil {
				return nil, nil, errors.Join(err, stop())
			}
			closers, attached[t.lib] = append(closers, a), a
		}
		if err := tr.Trace(pid, probes.Target{}); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		if o.Stacks != probes.StacksNone {
			if unstack, err = stacked(tr, pid); err != nil {
				unstack = func() {}
				return nil, nil, errors.Join(err, stop())
			}
		}
		if err := tr.SetOrigins(map[bool]probes.Origins{true: probes.OriginsLearn}[h.once]); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		var late error
		left := h
		done := func() error { return errors.Join(late, stop()) }
		return done, func() {
			if n := tr.Drain(1<<30, func([]byte) {}); n > 0 && left != (how{}) {
				late = errors.Join(late, without(tr, pid, attached, left))
				left = how{}
			}
		}, nil
	}
}

func attach(tr *probes.Tracer, t target) (*probes.Attached, error) {
	o, err := object(t)
	if err != nil {
		return nil, err
	}
	a, err := tr.Attach(o)
	return a, errors.Join(err, o.File.(*os.File).Close())
}

func object(t target) (probes.Object, error) {
	f, err := os.Open(t.path)
	return probes.Object{Path: t.path, Name: t.path, File: f, Lib: t.lib}, err
}

// pollEvery is the interval of reads, as in a session.
const pollEvery = 8 * time.Millisecond
