package probes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"ingero/internal/bpf"
)

// XidTracepoint is a tracepoint that reports the NVIDIA driver's faults. Drivers have them since
// 575.
type XidTracepoint struct {
	Group, Name string
	Switch      bool // reports faults of NVSwitches
}

// String returns the tracepoint's usual name, group:name.
func (t XidTracepoint) String() string { return t.Group + ":" + t.Name }

// XidTracepoints lists the tracepoints to look for. The first is that of GPUs.
var XidTracepoints = []XidTracepoint{
	{Group: "nvidia", Name: "nvidia_dev_xid"},
	{Group: "nvswitch", Name: "nvswitch_dev_sxid", Switch: true},
}

// ErrNoTracepoint reports that the kernel has no tracepoint of the NVIDIA driver: the driver is not
// loaded, or older than 575.
var ErrNoTracepoint = errors.New("no such tracepoint")

// ErrNoBTF reports that the kernel has no type information.
var ErrNoBTF = errors.New("the kernel has no BTF")

// XidReport is a fault as the driver reported it.
type XidReport struct {
	Mono   uint64 // CLOCK_MONOTONIC ns
	Code   uint32
	Switch bool
	Dev    string // PCI address
	Msg    string // at most 471 bytes
}

// Xids waits for faults that the driver reports. Read is for one goroutine; the other methods are
// safe for concurrent use.
type Xids struct {
	rings   *ebpf.Map
	reader  *ringbuf.Reader
	record  ringbuf.Record
	open    []closer
	sources []xidSource

	mu    sync.Mutex // guards the fields below
	ended bool
	lost  uint64 // final count
}

type closer interface{ Close() error }

type xidSource struct {
	at   XidTracepoint
	prog *ebpf.Program
	lost *ebpf.Variable
}

// OpenXids attaches to the tracepoints that this kernel has. The error is ErrNoTracepoint if it has
// none.
func OpenXids() (*Xids, error) { return openXids(tracefsRoots) }

// tracefsRoots lists the directories that describe the kernel's tracepoints.
var tracefsRoots = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

func openXids(roots []string) (_ *Xids, err error) {
	x := &Xids{}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	for _, at := range XidTracepoints {
		format, err := readFormat(roots, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tracepoint %s: %w", at, err)
		}
		if err := x.attach(at, format); err != nil {
			return nil, fmt.Errorf("tracepoint %s: %w", at, explainXid(err))
		}
	}
	if len(x.sources) == 0 {
		return nil, fmt.Errorf("%s: %w", XidTracepoints[0], ErrNoTracepoint)
	}
	if x.reader, err = ringbuf.NewReader(x.rings); err != nil {
		return nil, fmt.Errorf("open the ring of faults: %w", err)
	}
	return x, nil
}

// attach loads the program for a tracepoint and attaches it. All programs share one ring.
func (x *Xids) attach(at XidTracepoint, f *Format) error {
	spec, err := bpf.LoadXid()
	if err != nil {
		return err
	}
	isSwitch := uint32(0)
	if at.Switch {
		isSwitch = 1
	}
	for name, value := range map[string]uint32{
		bpf.XidVarDevOff: f.Dev, bpf.XidVarCodeOff: f.Code, bpf.XidVarMsgOff: f.Msg, bpf.XidVarIsSwitch: isSwitch,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	var o ebpf.CollectionOptions
	if x.rings != nil {
		o.MapReplacements = map[string]*ebpf.Map{bpf.XidMapXids: x.rings}
	}
	var loaded bpf.XidObjects
	if err := spec.LoadAndAssign(&loaded, &o); err != nil {
		return err
	}
	x.open = append(x.open, &loaded)
	if x.rings == nil {
		x.rings = loaded.Xids
	}
	l, err := link.Tracepoint(at.Group, at.Name, loaded.OnXid, nil)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	x.open = append(x.open, l)
	x.sources = append(x.sources, xidSource{at, loaded.OnXid, loaded.Lost})
	return nil
}

// explainXid distinguishes a kernel without BTF from missing privileges.
func explainXid(err error) error {
	if err = explain(err); errors.Is(err, fs.ErrPermission) {
		return err
	}
	if haveBTF() != nil {
		return fmt.Errorf("%w: %w", ErrNoBTF, err)
	}
	return err
}

// Tracepoints returns the attached tracepoints.
func (x *Xids) Tracepoints() []XidTracepoint {
	var out []XidTracepoint
	for _, s := range x.sources {
		out = append(out, s.at)
	}
	return out
}

// Read waits for the next fault. It returns [os.ErrClosed] after Close.
func (x *Xids) Read() (XidReport, error) {
	err := x.reader.ReadInto(&x.record)
	switch {
	case errors.Is(err, ringbuf.ErrClosed):
		return XidReport{}, os.ErrClosed
	case err != nil:
		return XidReport{}, fmt.Errorf("read faults: %w", err)
	}
	var r bpf.XidRecord
	if err := binary.Read(bytes.NewReader(x.record.RawSample), binary.LittleEndian, &r); err != nil {
		return XidReport{}, fmt.Errorf("read faults: %d bytes: %w", len(x.record.RawSample), err)
	}
	return XidReport{Mono: r.TimeNs, Code: r.Code, Switch: r.IsSwitch != 0, Dev: cString(r.Dev[:]), Msg: cString(r.Msg[:])}, nil
}

// cString returns the text before the first zero, as valid UTF-8.
func cString(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return strings.ToValidUTF8(string(b), "?")
}

// Lost returns the number of reported faults that were not read: the ring was full, or another
// program of the same kind was running on that CPU.
func (x *Xids) Lost() (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return x.lost, nil
	}
	return x.countLost()
}

func (x *Xids) countLost() (uint64, error) {
	var sum uint64
	for _, s := range x.sources {
		var full uint64
		if err := s.lost.Get(&full); err != nil {
			return sum, fmt.Errorf("read the losses at %s: %w", s.at, err)
		}
		sum += full
		// Kernels before 5.12 do not count the latter.
		if st, err := s.prog.Stats(); err == nil {
			sum += st.RecursionMisses
		}
	}
	return sum, nil
}

// Close detaches the programs. It is idempotent.
func (x *Xids) Close() (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil
	}
	x.ended = true
	x.lost, err = x.countLost()
	if x.reader != nil {
		err = errors.Join(err, x.reader.Close())
	}
	for i := len(x.open) - 1; i >= 0; i-- {
		err = errors.Join(err, x.open[i].Close())
	}
	return err
}

// Format has the offsets of fields in a tracepoint's record, in bytes.
type Format struct{ Dev, Code, Msg uint32 }

// XidFormat returns the format of a tracepoint's record on the machine whose files are below root.
// The error is fs.ErrNotExist if the tracepoint does not exist.
func XidFormat(root string, at XidTracepoint) (*Format, error) {
	var roots []string
	for _, r := range tracefsRoots {
		roots = append(roots, root+r)
	}
	return readFormat(roots, at)
}

func readFormat(roots []string, at XidTracepoint) (*Format, error) {
	var first error
	for _, root := range roots {
		b, err := os.ReadFile(filepath.Join(root, "events", at.Group, at.Name, "format"))
		if err == nil {
			return parseFormat(string(b))
		}
		// A permission error explains more than a missing file.
		if first == nil || errors.Is(err, fs.ErrPermission) {
			first = err
		}
	}
	return nil, first
}

// parseFormat reads a format file. A field has a line like
//
//	field:__data_loc char[] msg;	offset:16;	size:4;	signed:1;
func parseFormat(text string) (*Format, error) {
	var f Format
	want := map[string]struct {
		to   *uint32
		kind string // prefix of its declaration
	}{"dev": {&f.Dev, "__data_loc"}, "error_code": {&f.Code, ""}, "msg": {&f.Msg, "__data_loc"}}
	for line := range strings.Lines(text) {
		declared, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "field:"), ";")
		at := strings.LastIndexByte(declared, ' ')
		if !ok || at < 0 {
			continue
		}
		field, wanted := want[declared[at+1:]]
		if !wanted {
			continue
		}
		var offset, size uint64
		for part := range strings.SplitSeq(rest, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
			n, err := strconv.ParseUint(value, 10, 16)
			switch {
			case err != nil:
			case key == "offset":
				offset = n
			case key == "size":
				size = n
			}
		}
		if offset < 8 || size != 4 || !strings.HasPrefix(declared, field.kind) {
			return nil, fmt.Errorf("unexpected field %q: %q", declared[at+1:], strings.TrimSpace(line))
		}
		*field.to = uint32(offset)
		delete(want, declared[at+1:])
	}
	for name := range want {
		return nil, fmt.Errorf("its record has no field %q", name)
	}
	return &f, nil
}
