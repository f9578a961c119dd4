package probes

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// linkKind is an attach_type of BPF_LINK_CREATE.
type linkKind uint32

// Values of enum bpf_attach_type (include/uapi/linux/bpf.h).
const (
	linkMulti   linkKind = 48 // BPF_TRACE_UPROBE_MULTI, 6.6
	linkSession linkKind = 57 // BPF_TRACE_UPROBE_SESSION, 6.13
)

// multiAttr is the part of union bpf_attr for a uprobe link of many places:
// link_create.uprobe_multi.
type multiAttr struct {
	progFD     uint32
	targetFD   uint32
	attachType uint32
	flags      uint32
	path       uint64
	offsets    uint64
	refOffsets uint64
	cookies    uint64
	count      uint32
	multiFlags uint32
	pid        uint32
	_          uint32
}

const (
	cmdLinkCreate   = 28 // BPF_LINK_CREATE
	flagMultiReturn = 1  // BPF_F_UPROBE_MULTI_RETURN
)

// linkPlaces links one program to many places of one file. pid 0 means every process that maps the
// file. cilium/ebpf has no call for session links.
func linkPlaces(prog *ebpf.Program, kind linkKind, path string, offsets, cookies []uint64, ret bool, pid uint32) (*os.File, error) {
	if len(offsets) == 0 || len(offsets) != len(cookies) {
		return nil, fmt.Errorf("link %s: %d places and %d cookies", path, len(offsets), len(cookies))
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", path, err)
	}
	attr := multiAttr{
		progFD:     uint32(prog.FD()),
		attachType: uint32(kind),
		path:       uint64(uintptr(unsafe.Pointer(p))),
		offsets:    uint64(uintptr(unsafe.Pointer(&offsets[0]))),
		cookies:    uint64(uintptr(unsafe.Pointer(&cookies[0]))),
		count:      uint32(len(offsets)),
		pid:        pid,
	}
	if ret {
		attr.multiFlags = flagMultiReturn
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, cmdLinkCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(p)
	runtime.KeepAlive(offsets)
	runtime.KeepAlive(cookies)
	runtime.KeepAlive(prog)
	if errno != 0 {
		return nil, fmt.Errorf("link %d probes in %s: %w", len(offsets), path, errno)
	}
	unix.CloseOnExec(int(fd))
	return os.NewFile(fd, "uprobe link"), nil
}
