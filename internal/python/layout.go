package python

import "fmt"

// Flags of a Layout: enum py_flags in bpf/pyabi.h.
const (
	flagCFrame = 1 << iota // thread states reach their frame through a cframe: 3.11, 3.12
	flagLasti              // frames are objects, and count instructions: 3.10
	flagEntry              // the byte before the owner marks the frame that the loop was entered with: 3.11
)

// Layout has byte offsets within the structures of one CPython. It equals struct py_layout of
// bpf/pyabi.h, which a test checks.
type Layout struct {
	Flags         uint16
	InterpHead    uint16 // _PyRuntimeState
	InterpNext    uint16 // PyInterpreterState
	InterpThreads uint16
	TsBytes       uint16 // PyThreadState: bytes read of it; prev, next, interp come first
	TsID          uint16
	TsFrame       uint16
	CframeFrame   uint16 // _PyCFrame
	FBytes        uint16 // PyFrameObject, _PyInterpreterFrame
	FCode         uint16
	FPrev         uint16
	FInstr        uint16
	FOwner        uint16
	CoBytes       uint16 // PyCodeObject: bytes read of it, from its type on
	CoCode        uint16 // the instructions; 16 bytes before them is how many a frame begins with
	CoVersion     uint16 // its version number, 0: it has none
	CoFirst       uint16 // first line
	CoFile        uint16
	CoName        uint16
	CoQualname    uint16 // CoName if there is none
	CoLines       uint16
	StrASCII      uint16 // size of a PyASCIIObject
	StrCompact    uint16 // size of a PyCompactUnicodeObject
	Pad           uint16
}

// offsets is a Layout, and the offsets that only user space uses.
type offsets struct {
	Layout
	tsNative    uint16 // native_thread_id, 0: none
	gil         uint16 // offset of the lock
	gilLocation gilLocation
}

// gilLocation is the structure that the lock's offset refers to.
type gilLocation uint8

const (
	gilInRuntime gilLocation = iota // the lock is in _PyRuntimeState
	gilInInterp                     // the lock is in PyInterpreterState: 3.12
	gilByPointer                    // PyInterpreterState has a pointer to the lock: 3.13
)

// Version is a CPython version: 3.12 is {3, 12}.
type Version struct{ Major, Minor uint8 }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// The range of supported versions.
var (
	oldest = Version{3, 10}
	newest = Version{3, 14}
)

// byVersion has the offsets of default 64-bit builds, from their headers. From 3.13 on an
// interpreter publishes its own.
var byVersion = map[Version]offsets{
	{3, 10}: {
		Layout: Layout{
			Flags: flagLasti, InterpHead: 32, InterpNext: 0, InterpThreads: 8,
			TsBytes: 184, TsID: 176, TsFrame: 24,
			FBytes: 104, FCode: 32, FPrev: 24, FInstr: 96,
			CoBytes: 120, CoCode: 48, CoFirst: 40, CoFile: 104, CoName: 112, CoQualname: 112, CoLines: 120,
			StrASCII: 48, StrCompact: 72,
		},
		gil: 352,
	},
	{3, 11}: {
		Layout: Layout{
			Flags: flagCFrame | flagEntry, InterpHead: 40, InterpNext: 0, InterpThreads: 16,
			TsBytes: 160, TsID: 152, TsFrame: 56, CframeFrame: 8,
			FBytes: 72, FCode: 32, FPrev: 48, FInstr: 56, FOwner: 69,
			CoBytes: 176, CoCode: 184, CoFirst: 72, CoFile: 112, CoName: 120, CoQualname: 128, CoLines: 136,
			StrASCII: 48, StrCompact: 72,
		},
		tsNative: 160, gil: 360,
	},
	{3, 12}: {
		Layout: Layout{
			Flags: flagCFrame, InterpHead: 40, InterpNext: 0, InterpThreads: 72,
			TsBytes: 144, TsID: 136, TsFrame: 56, CframeFrame: 0,
			FBytes: 72, FCode: 0, FPrev: 8, FInstr: 56, FOwner: 70,
			CoBytes: 184, CoCode: 192, CoVersion: 92, CoFirst: 68, CoFile: 112, CoName: 120, CoQualname: 128, CoLines: 136,
			StrASCII: 40, StrCompact: 56,
		},
		tsNative: 144, gil: 1040, gilLocation: gilInInterp,
	},
}

// Offsets and sizes common to all versions.
const (
	typeOf       = 8  // PyObject: its type
	sizeOf       = 16 // PyVarObject: its size
	typeName     = 24 // PyTypeObject: tp_name
	typeSize     = 32 // tp_basicsize
	typeMembers  = 240
	memberBytes  = 40 // PyMemberDef: name, type, offset
	memberOffset = 16
	strLength    = 16 // PyASCIIObject
	strHash      = 24
	strState     = 32
	bytesData    = 32 // PyBytesObject
	tsNext       = 8  // PyThreadState
	tsInterp     = 16
	versionApart = 24  // distance of co_version behind co_firstlineno: 3.12 on
	traceApart   = 16  // distance of _co_firsttraceable before the instructions: 3.11 on
	rawBytes     = 256 // bytes that the kernel reads at once: PY_RAW
)

// The lock of an interpreter (struct _gil_runtime_state): 3.10 to 3.14.
const (
	gilHolder    = 8
	gilLocked    = 16
	gilCond      = 32
	gilMutex     = 80
	gilBytes     = 208
	condBytes    = 48
	mutexBytes   = 40
	ownerGen     = 1 // FRAME_OWNED_BY_GENERATOR
	ownerShim    = 3 // and above: entry of the evaluation loop; 3.12
	maxSteps     = 320
	maxThreads   = 4096
	maxInterps   = 64
	maxFirstLine = 1 << 24
)

// sound reports whether the kernel can use the layout: offsets are aligned, and within the bytes
// that it reads at once.
func (l *Layout) sound() bool {
	within := func(off, size, bytes uint16) bool { return off+size <= bytes && off%min(size, 8) == 0 }
	ok := l.TsBytes <= rawBytes && l.FBytes <= rawBytes && l.CoBytes <= rawBytes &&
		within(l.TsID, 8, l.TsBytes) && within(l.TsFrame, 8, l.TsBytes) &&
		within(l.FCode, 8, l.FBytes) && within(l.FPrev, 8, l.FBytes) && within(l.FInstr, 4, l.FBytes) &&
		l.FOwner < l.FBytes
	for _, off := range []uint16{l.CoFile, l.CoName, l.CoQualname, l.CoLines} {
		ok = ok && off >= 16 && within(off-8, 8, l.CoBytes)
	}
	if l.Flags&flagLasti == 0 {
		ok = ok && l.CoCode >= 32 && within(l.CoCode-traceApart-8, 4, l.CoBytes)
	}
	return ok && l.CoFirst >= 16 && within(l.CoFirst-8, 4, l.CoBytes) &&
		(l.CoVersion == 0 || l.CoVersion >= 16 && within(l.CoVersion-8, 4, l.CoBytes))
}
