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
// and the body. The head's own checksum distinguishes a truncated frame from a damaged length.
const (
	magic    = "ingero\x00\x01"
	headSize = 16
	maxBody  = 16 << 20
)

// frameKind is a frame's content. The numbers never change their meaning.
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
	frameWaits     // the waits before or among the calls of the next frame
	frameOther     // JSON: an untraced process, as frameProcess
	frameBlock     // how the next frames' calls and waits interleave with the frames after them
	frameIndex     // last of a sealed segment: where the calls are
	frameLost      // JSON: a repair removed damaged frames here
	frameFunctions // names of GPU functions, each before its calls if known by then
	frameHost      // host activity, before its tick
	frameXid       // JSON: a GPU fault
	frameGPU       // JSON: a GPU's state
	frameStacks    // call stacks, some time after their calls
	frameBatches   // batch sizes of the next frames, up to the next such frame or a tick
	frameFacts     // the next tick's facts that no other frame has
	frameRanges    // NVTX calls

	frameKinds // one more than the last known kind
)

// version returns the latest version of a kind's body; the first is 1. A body is written in the
// earliest version that can hold its content.
//
//	calls 2: throttled time
//	calls 3: devices
//	calls 4: how many calls a stack stands for
//	calls 5: launches before a call
//	ticks 2: throttled time, threads
//	lives 2: signals
//	waits 2: stacks of holders of locks
//	waits 3: start times of parties, hops
//	waits 4: how often the GIL had passed
//	batches 2: ranges
//	facts 2: overhead of tracing
//	facts 3: the least overhead of the probes
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
	// ErrNotLog means that a file is not a recording.
	ErrNotLog = errors.New("not an ingero recording")
	// ErrCorrupt means that a recording's bytes were changed. Everything before them has been read.
	ErrCorrupt = errors.New("the recording is damaged")
	// ErrVersion means that a newer ingero wrote the recording.
	ErrVersion = errors.New("a newer ingero wrote the recording")
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

// frames reads a log's frames in order.
type frames struct {
	r    io.ReaderAt
	off  int64
	size int64
	body []byte
	// damaged reports that a frame was skipped.
	damaged bool
}

// next returns the next frame; its body is valid until the next call. It returns io.EOF at the end,
// complete or truncated. After an error, the next call continues with the next frame, or at the end
// if the frame's position is unknown.
func (f *frames) next() (kind frameKind, version uint8, body []byte, err error) {
	var head [headSize]byte
	if f.size-f.off < headSize {
		return 0, 0, nil, io.EOF
	}
	if err := f.read(head[:], f.off); err != nil {
		return 0, 0, nil, err
	}
	if head == [headSize]byte{} { // space that was reserved and never written
		return 0, 0, nil, io.EOF
	}
	n := int64(binary.LittleEndian.Uint32(head[0:]))
	if binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[:12], castagnoli) || n > maxBody {
		err := fmt.Errorf("%w at byte %d: invalid frame header; the %d bytes from there are lost", ErrCorrupt, f.off, f.size-f.off)
		f.off, f.damaged = f.size, true
		return 0, 0, nil, err
	}
	if f.size-f.off-headSize < n {
		return 0, 0, nil, io.EOF
	}
	if int64(cap(f.body)) < n {
		f.body = make([]byte, n)
	}
	f.body = f.body[:n]
	if err := f.read(f.body, f.off+headSize); err != nil {
		return 0, 0, nil, err
	}
	at := f.off
	f.off += headSize + n
	if binary.LittleEndian.Uint32(head[8:]) != crc32.Checksum(f.body, castagnoli) {
		f.damaged = true
		return 0, 0, nil, fmt.Errorf("%w at byte %d: a frame of kind %d (%d bytes) is lost", ErrCorrupt, at, head[4], n)
	}
	return frameKind(head[4]), head[5], f.body, nil
}

// read fills b from offset at. If the file has become shorter, it ends there.
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
