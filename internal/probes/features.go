package probes

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Feature is a feature that a kernel may have.
type Feature struct {
	Name   string // short and stable, for JSON: "session-links"
	Have   bool
	Must   bool   // ingero cannot trace without it
	Cost   string // cost of its absence, or its benefit
	Reason string // reason of its absence, "" if present
}

// emptyProgram does nothing.
var emptyProgram = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}

// haveMode tries whether the kernel supports a mode. It returns nil, or an error with the reason.
func haveMode(m Mode) error {
	switch m {
	case ModeSession:
		return haveLinkKind(linkSession)
	case ModeMulti:
		return haveLinkKind(linkMulti)
	case ModePerf:
		return nil // the floor: without it, Open returns the kernel's own error
	}
	return fmt.Errorf("link mode %q: %w", m, ErrNotSupported)
}

// haveLinkKind loads an empty program of the kind and tries to link it to a directory. A kernel
// that knows the kind refuses the directory (EBADF), any other refuses the kind.
func haveLinkKind(kind linkKind) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "probe_links", Type: ebpf.Kprobe, AttachType: ebpf.AttachType(kind), License: "GPL", Instructions: emptyProgram,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	defer func() { _ = prog.Close() }()
	_, err = linkPlaces(prog, kind, "/", []uint64{0}, []uint64{0}, false, 0)
	if errors.Is(err, unix.EBADF) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotSupported, err)
}

// chooseMode returns the best mode that the kernel supports, or checks the requested one.
func chooseMode(want Mode) (Mode, error) {
	if want != ModeAuto {
		return want, haveMode(want)
	}
	for _, m := range []Mode{ModeSession, ModeMulti, ModePerf} {
		if haveMode(m) == nil {
			return m, nil
		}
	}
	return ModePerf, nil
}

// Probe tries which features of this kernel tracing can use. It needs the privileges of tracing;
// without them features are absent, with that reason.
func Probe() []Feature {
	have := func(name, cost string, must bool, err error) Feature {
		f := Feature{Name: name, Cost: cost, Must: must, Have: err == nil}
		if err != nil {
			f.Reason = explain(err).Error()
		}
		return f
	}
	return append([]Feature{
		have("btf", "describes the kernel data that the ledger reads", true, haveBTF()),
		have("programs", "load and pass the verifier", true, haveLoad()),
		have("session-links", "half the cost of a return probe, detach in 0.1 s", false, haveMode(ModeSession)),
		have("multi-links", "any number of functions, detach in 0.1 s; without them, only as many as detach in 7 s, starting with those that programs name", false, haveMode(ModeMulti)),
		have("requests", "measure HTTP requests to servers, at their sockets", false, haveRequests()),
		have("map-files", "reach libraries that were deleted or are in another mount namespace", false, haveMapFiles()),
	}, hostFeatures(have)...)
}

func haveBTF() error {
	_, err := btf.LoadKernelSpec()
	return err
}

// haveLoad opens a tracer as a trace does, and closes it.
func haveLoad() error {
	t, err := Open(Options{RingBytes: os.Getpagesize()})
	if err != nil {
		return err
	}
	return t.Close()
}

func haveRequests() error {
	r, err := OpenRequests(nil)
	if err != nil {
		return err
	}
	return r.Close()
}

func haveMapFiles() error {
	maps, err := os.ReadDir("/proc/self/map_files")
	if err != nil {
		return err
	}
	if len(maps) == 0 {
		return errors.New("/proc/self/map_files is empty")
	}
	f, err := os.Open("/proc/self/map_files/" + maps[0].Name())
	if err != nil {
		return err
	}
	return f.Close()
}

// explain turns a load error into one that a user can act on.
func explain(err error) error {
	var ve *ebpf.VerifierError
	switch {
	case errors.As(err, &ve):
		return fmt.Errorf("the verifier rejected a program: %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("not permitted: requires root, or CAP_BPF and CAP_PERFMON: %w", err)
	}
	return err
}

// Verified returns the number of instructions that the verifier processed, for each loaded program.
// The error is [ErrNotSupported] if the kernel does not report it (before 5.16).
func (t *Tracer) Verified() (map[string]uint32, error) {
	out := map[string]uint32{}
	for name, p := range t.programs {
		info, err := p.Info()
		if err != nil {
			return nil, fmt.Errorf("read the properties of %s: %w", name, err)
		}
		n, ok := info.VerifiedInstructions()
		if !ok || n == 0 {
			return nil, fmt.Errorf("read the number of verified instructions of %s: %w", name, ErrNotSupported)
		}
		out[name] = n
	}
	return out, nil
}
