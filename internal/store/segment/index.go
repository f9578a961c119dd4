package segment

import (
	"encoding/binary"
	"ingero/internal/store/log"
)

// A sealed segment ends with a frame that indexes its calls, and with a tail of 16 bytes, little
// endian:
//
//	0  u64 offset of that frame
//	8  u32 CRC32C of these 8 bytes
//	12 "iseg"
const (
	tailSize  = 16
	tailMagic = "iseg"
)

// index is a sealed segment's index.
type index struct {
	calls []callsFrame
	waits uint64 // number of waits
}

// callsFrame is a frame of calls.
type callsFrame struct {
	at          int64
	n           int
	number      uint64 // its first call's, in the session
	first, last int64  // times between which its calls lie
}

func appendIndex(b []byte, x *index) []byte {
	b = appendUvarint(appendUvarint(b, x.waits), uint64(len(x.calls)))
	var last callsFrame
	for _, f := range x.calls {
		b = appendUvarint(appendUvarint(b, uint64(f.at-last.at)), uint64(f.n))
		b = appendUvarint(appendUvarint(b, f.number-last.number), zig(f.first-last.first))
		b = appendUvarint(b, zig(f.last-f.first))
		last = f
	}
	return b
}

func appendTail(b []byte, at int64) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, log.Checksum(b[from:]))
	return append(b, tailMagic...)
}

// readIndex reads a segment's index. It returns nil if there is none, as in an unsealed segment or
// after its end was lost. Such a segment is readable nevertheless.
func readIndex(f *log.Reader) (*index, error) {
	var tail [tailSize]byte
	if f.Size < tailSize {
		return nil, nil
	}
	if err := f.Fill(tail[:], f.Size-tailSize); err != nil {
		return nil, err
	}
	at := int64(binary.LittleEndian.Uint64(tail[0:]))
	if string(tail[12:]) != tailMagic || binary.LittleEndian.Uint32(tail[8:]) != log.Checksum(tail[:8]) ||
		at < int64(len(log.Magic)) || at > f.Size-tailSize-log.HeadSize {
		return nil, nil
	}
	x := log.Reader{From: f.From, Offset: at, Size: f.Size}
	kind, version, body, err := x.Next()
	if err != nil || kind != frameIndex || version > latest(kind) {
		return nil, nil //nolint:nilerr // the rest can be read without
	}
	r := reader{b: body}
	out := &index{waits: r.uint()}
	var last callsFrame
	n := r.count()
	if n > maxFrames {
		return nil, nil
	}
	for range n {
		step := r.uint()
		if step < log.HeadSize || step > uint64(at) {
			r.fail()
		}
		last.at += int64(step)
		last.n = int(min(r.uint(), frameCallsCap+1))
		last.number += r.uint()
		last.first += r.int()
		last.last = last.first + r.int()
		if last.at > at || last.n > frameCallsCap {
			r.fail()
		}
		if r.bad {
			break
		}
		out.calls = append(out.calls, last)
	}
	if r.bad || len(r.b) != 0 {
		return nil, nil
	}
	return out, nil
}
