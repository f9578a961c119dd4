package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of a row. They are the sizes of the kernel's arrays (bpf/abi.h).
const (
	MaxArgs  = 4 // 64-bit arguments kept per call
	MaxSlots = 9 // integer argument slots that can be read
)

// Class groups operations by what they do, in any source.
type Class uint8

// The classes.
const (
	ClassOther Class = iota
	ClassLaunch
	ClassMalloc
	ClassFree
	ClassMemcpy
	ClassMemset
	ClassSync
	ClassGraph      // captures, creates, instantiates, changes or destroys a graph
	ClassStream     // creates, destroys or chains streams
	ClassEvent      // creates, records or destroys an event
	ClassQuery      // queries a state without waiting; in a loop it is a wait
	ClassModule     // loads code, or looks up its contents
	ClassDevice     // creates, selects or resets a device or a context
	ClassMemory     // maps, registers or prefetches memory, without allocating or freeing it
	ClassCollective // of NCCL: enqueues communication
	ClassComm       // of NCCL: creates, splits or ends a communicator
	ClassRange      // of NVTX: the program names its activity. No CUDA call
)

var classNames = [...]string{"other", "launch", "malloc", "free", "memcpy", "memset", "sync",
	"graph", "stream", "event", "query", "module", "device", "memory", "collective", "comm", "range"}

// String returns the class's lower-case name.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Library is the library that contains a row's symbols.
type Library uint8

// The libraries.
const (
	LibCudart Library = iota + 1
	LibCuda
	LibNCCL
	LibNVTX // versions 1 and 2; version 3 has no library
)

var libraryNames = [...]string{LibCudart: "libcudart", LibCuda: "libcuda", LibNCCL: "libnccl", LibNVTX: "libnvToolsExt"}

// String returns the name without suffix, for example "libcudart".
func (l Library) String() string {
	if int(l) < len(libraryNames) && libraryNames[l] != "" {
		return libraryNames[l]
	}
	return fmt.Sprintf("library(%d)", uint8(l))
}

// Row is one traced function: its C parameters and the values to keep.
type Row struct {
	Op    Op
	Name  string // the function's documented name
	Lib   Library
	Class Class
	// Symbols are the exported names with these parameters, including Name if it is exported. Empty
	// means only Name. All that a library exports are attached. @ is followed by the major versions
	// of the library in which the name has these parameters: "cudaGraphInstantiate@12-", "...@-11".
	Symbols []string
	// Params are the C parameters in order: "dst, src, count, kind int". A type follows its name:
	// int (32 bits), dim3 (two slots), struct24 (a structure of 24 bytes, more than 16, by value);
	// without a type it has 64 bits.
	Params string
	// Keep lists up to MaxArgs expressions for the values that a call carries:
	//   count            the parameter
	//   *devPtr          the 64 bits it points to when the call returns
	//   *device:int      the 32 bits
	//   *pitched+8       the 64 bits at the pointer plus 8 when the call returns
	//   width*height     a product
	//   gridDim          a dim3, packed by [PackDim3]
	//   gx|gy|gz         three ints, packed likewise
	//   config+32        64 bits in memory at the pointer plus 32, at entry
	//   config+0:dim3    a dim3 in memory at entry
	//   extent+0:volume  the product of three successive 64-bit fields
	//   copy+112*120     a product of two 64-bit fields in memory at entry
	//   datatype|op      two ints: the first in the low 16 bits
	//   =3               a constant
	// A structure by value is read as if its parameter pointed to it. A prefix with a colon is the
	// role of the value, see [Role]: "bytes:count".
	Keep []string
	// Tag is one more expression, of 32 bits: a kind, a direction, flags.
	Tag string
	// EntryOnly forbids a return probe: the function calls back into user code that may unwind
	// through it.
	EntryOnly bool
	// Text also delivers the string that the first kept value points to, a name: see [Text]. For an
	// EntryOnly function, only the first calls of a process deliver it; the string stays in memory
	// and can be read later.
	Text bool
	// Pending is a result that is neither success nor failure: not ready yet.
	Pending uint16
}

// Symbol is an exported name with the major versions of the library in which it belongs to a row:
// From to To, 0 for no bound.
type Symbol struct {
	Name     string
	From, To int
}

// In reports whether the symbol applies in a major version. Version 0 means unknown and selects the
// latest form.
func (s Symbol) In(version int) bool {
	if version == 0 {
		return s.To == 0
	}
	return version >= s.From && (s.To == 0 || version <= s.To)
}

// Exports returns every symbol to look for, in catalog order.
func (r *Row) Exports() []Symbol {
	if len(r.Symbols) == 0 {
		return []Symbol{{Name: r.Name}}
	}
	out := make([]Symbol, len(r.Symbols))
	for i, s := range r.Symbols {
		name, versions, _ := strings.Cut(s, "@")
		from, to, _ := strings.Cut(versions, "-")
		out[i].Name = name
		out[i].From, _ = strconv.Atoi(from)
		out[i].To, _ = strconv.Atoi(to)
	}
	return out
}

// AllSymbols returns the names of Exports.
func (r *Row) AllSymbols() []string {
	var out []string
	for _, s := range r.Exports() {
		out = append(out, s.Name)
	}
	return out
}

// PackDim3 packs a dim3 as the kernel does: x in the low 32 bits, y and z in 16
// bits each. CUDA's own limits (2^31-1, 65535, 65535) fit.
func PackDim3(x, y, z uint32) uint64 {
	return uint64(x) | uint64(y&0xffff)<<32 | uint64(z&0xffff)<<48
}

// UnpackDim3 is the inverse of [PackDim3].
func UnpackDim3(v uint64) (x, y, z uint32) {
	return uint32(v), uint32(v>>32) & 0xffff, uint32(v >> 48)
}
