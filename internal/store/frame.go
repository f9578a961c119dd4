package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A log is magic and then frames. A frame is a head of 16 bytes, little endian:
//
//	0  u32 length of the body
//	4  u8  kind
//	5  u8  version of the kind's body
//	6  u16 zero
//	8  u32 CRC32C of the body
//	12 u32 CRC32C of the 12 bytes before
//
// and the body. The head has a sum of its own so that a frame which is cut off
// can be told from one whose length was damaged.
const (
	magic    = "ingero\x00\x01"
	headSize = 16
	maxBody  = 16 << 20
)

// frameKind says what a frame holds. The numbers never change their meaning.
type frameKind uint8

const (
	frameSession frameKind = iota + 1 // first: JSON
	frameCalls
	frameLives     // process events
	frameTick      // counts
	frameProcess   // JSON; a later one of the same process replaces it
	frameLibrary   // JSON; a later one of the same object replaces it
	frameReport    // JSON
	frameEnd       // last: JSON
	frameWaits     // those that came before or among the calls of the next frame
	frameOther     // JSON: a process that is not traced, as frameProcess
	frameBlock     // where among the calls and waits of the next frames those behind them belong
	frameIndex     // last of a sealed segment: where the calls are
	frameLost      // JSON: damaged frames were here, and a repair took them out
	frameFunctions // names of GPU functions; each before the calls that it is the name for, if it was known by then
	frameHost      // what happened on the host, before the tick that it is of
	frameXid       // JSON: a fault of a GPU
	frameGPU       // JSON: the state of a GPU
	frameStacks    // stacks of calls; some time after the calls that have them
	frameBatches   // in which pieces came what is in the next frames, up to the next of these or a tick
	frameFacts     // what of the next tick no other frame tells
	frameRanges    // calls of NVTX

	frameKinds // one more than the last that is known
)

// version is the latest version of a kind's body; the first is 1. A body is of
// the earliest version that can hold what is in it.
//
//	calls 2: time that was throttled
//	calls 3: devices
//	calls 4: how many calls a stack stands for
//	calls 5: launches before a call
//	ticks 2: time that was throttled, threads
//	lives 2: signals
//	waits 2: stacks of holders of locks
//	batches 2: ranges
//	facts 2: what tracing cost
//	facts 3: what probes need at least
func (k frameKind) version() uint8 {
	switch k {
	case frameCalls:
		return 5
	case frameWaits:
		return 4
	case frameFacts:
		return 3
	case frameTick, frameLives, frameBatches:
		return 2
	}
	return 1
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of reading a log.
var (
	// ErrNotLog says that a file is no recording at all.
	ErrNotLog = errors.New("not a recording of ingero")
	// ErrCorrupt says that bytes of a recording were changed. What lies before
	// them has been read.
	ErrCorrupt = errors.New("the recording is damaged")
	// ErrVersion says that a newer ingero wrote the recording.
	ErrVersion = errors.New("the recording is of a newer ingero")
)

// appendFrame appends a frame with the given body.
func appendFrame(b []byte, kind frameKind, version uint8, body []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, byte(kind), version, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:at+12], castagnoli))
	return append(b, body...)
}

// frames reads the frames of a log one after another.
type frames struct {
	r    io.ReaderAt
	at   int64
	size int64
	body []byte
	// damaged says that a frame was passed over.
	damaged bool
}

// next returns the next frame; its body is valid until the call after. It
// returns io.EOF at the end, whether that is whole or cut off. The call after one
// that found damage goes on behind it: at the next frame, or where it is not known
// where that begins, at the end.
func (f *frames) next() (kind frameKind, version uint8, body []byte, err error) {
	var head [headSize]byte
	if f.size-f.at < headSize {
		return 0, 0, nil, io.EOF
	}
	if err := f.read(head[:], f.at); err != nil {
		return 0, 0, nil, err
	}
	if head == [headSize]byte{} { // room that was made and never written
		return 0, 0, nil, io.EOF
	}
	n := int64(binary.LittleEndian.Uint32(head[0:]))
	if binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[:12], castagnoli) || n > maxBody {
		err := fmt.Errorf("%w at byte %d: a frame's head; the %d bytes from there are lost", ErrCorrupt, f.at, f.size-f.at)
		f.at, f.damaged = f.size, true
		return 0, 0, nil, err
	}
	if f.size-f.at-headSize < n {
		return 0, 0, nil, io.EOF
	}
	if int64(cap(f.body)) < n {
		f.body = make([]byte, n)
	}
	f.body = f.body[:n]
	if err := f.read(f.body, f.at+headSize); err != nil {
		return 0, 0, nil, err
	}
	at := f.at
	f.at += headSize + n
	if binary.LittleEndian.Uint32(head[8:]) != crc32.Checksum(f.body, castagnoli) {
		f.damaged = true
		return 0, 0, nil, fmt.Errorf("%w at byte %d: a frame of kind %d, %d bytes, is lost", ErrCorrupt, at, head[4], n)
	}
	return frameKind(head[4]), head[5], f.body, nil
}

// read fills b from at. A file that has become shorter ends there.
func (f *frames) read(b []byte, at int64) error {
	n, err := f.r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("read the recording at byte %d: %w", at, err)
}
