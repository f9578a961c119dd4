package python

import (
	"encoding/binary"
	"fmt"
	"math"
)

// _Py_DebugOffsets, which the interpreter publishes at the beginning of _PyRuntime.
const (
	cookie        = "xdebugpy"
	publishedSize = 640 // bytes, more than are used
)

// published has, in words, where the groups of _Py_DebugOffsets begin, one group per structure, and
// where the lock is in its group. A group begins with the size of its structure.
var published = map[Version]struct{ runtime, interp, thread, frame, code, gil int }{
	{3, 13}: {runtime: 3, interp: 6, thread: 19, frame: 28, code: 34, gil: 8},
	{3, 14}: {runtime: 3, interp: 6, thread: 22, frame: 31, code: 39, gil: 9},
}

// parsePublished reads _Py_DebugOffsets. ok reports whether b has any.
func parsePublished(b []byte) (v Version, o offsets, ok bool, err error) {
	if len(b) < publishedSize || string(b[:8]) != cookie {
		return v, o, false, nil
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	v = Version{uint8(word(1) >> 24), uint8(word(1) >> 16)}
	at, known := published[v]
	if !known {
		return v, o, true, fmt.Errorf("%w: CPython %s (supported: %s to %s)", ErrVersion, v, oldest, newest)
	}
	if word(2) != 0 {
		return v, o, true, fmt.Errorf("CPython %s: %w", v, ErrFreeThreaded)
	}
	var bad error
	get := func(group, member int) uint16 {
		x := word(group + member)
		if x > math.MaxUint16 {
			bad = fmt.Errorf("%w: CPython %s publishes the invalid offset %d", ErrMismatch, v, x)
		}
		return uint16(x)
	}
	o.Layout = Layout{
		InterpHead: get(at.runtime, 2), InterpNext: get(at.interp, 2), InterpThreads: get(at.interp, 3),
		TsFrame: get(at.thread, 4), TsID: get(at.thread, 5),
		FPrev: get(at.frame, 1), FCode: get(at.frame, 2), FInstr: get(at.frame, 3), FOwner: get(at.frame, 5),
		CoFile: get(at.code, 1), CoName: get(at.code, 2), CoQualname: get(at.code, 3), CoLines: get(at.code, 4),
		CoFirst: get(at.code, 5), CoCode: get(at.code, 9),
		StrASCII: 40, StrCompact: 56,
	}
	o.FBytes = (max(o.FOwner, o.FInstr) + 8) &^ 7
	o.TsBytes = max(o.TsID, o.TsFrame, tsInterp) + 8
	o.CoVersion = o.CoFirst + versionApart
	o.CoBytes = o.CoCode - 8
	o.tsNative = get(at.thread, 6)
	o.gil, o.gilLocation = get(at.interp, at.gil), gilByPointer
	if word(at.thread+1) != 0 || word(at.thread+2) != tsNext || word(at.thread+3) != tsInterp {
		bad = fmt.Errorf("%w: CPython %s has a different kind of thread state", ErrMismatch, v)
	}
	return v, o, true, bad
}
