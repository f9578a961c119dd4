package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Magic begins a log. HeadSize is the size of a frame's head in bytes, MaxBody the largest body's.
const (
	Magic    = "ingero\x00\x01"
	HeadSize = 16
	MaxBody  = 16 << 20
)

// Kind is what a frame holds. A log does not interpret it.
type Kind uint8

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

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

// Append appends a frame with the given body.
func Append(b []byte, kind Kind, version uint8, body []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, byte(kind), version, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, Checksum(body))
	b = binary.LittleEndian.AppendUint32(b, Checksum(b[at:at+12]))
	return append(b, body...)
}

// Reader reads a log's frames in order.
type Reader struct {
	From   io.ReaderAt
	Offset int64
	Size   int64
	body   []byte
	// damaged reports that a frame was skipped.
	Damaged bool
}

// Next returns the next frame; its body is valid until the next call. It returns io.EOF at the end,
// complete or truncated. After an error, the next call continues with the next readable frame.
func (f *Reader) Next() (kind Kind, version uint8, body []byte, err error) {
	var head [HeadSize]byte
	if f.Size-f.Offset < HeadSize {
		return 0, 0, nil, io.EOF
	}
	if err := f.Fill(head[:], f.Offset); err != nil {
		return 0, 0, nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head[0:]))
	if binary.LittleEndian.Uint32(head[12:]) != Checksum(head[:12]) || n > MaxBody {
		return 0, 0, nil, f.skip(head == [HeadSize]byte{})
	}
	if f.Size-f.Offset-HeadSize < n {
		return 0, 0, nil, io.EOF
	}
	if int64(cap(f.body)) < n {
		f.body = make([]byte, n)
	}
	f.body = f.body[:n]
	if err := f.Fill(f.body, f.Offset+HeadSize); err != nil {
		return 0, 0, nil, err
	}
	at := f.Offset
	f.Offset += HeadSize + n
	if binary.LittleEndian.Uint32(head[8:]) != Checksum(f.body) {
		f.Damaged = true
		return 0, 0, nil, fmt.Errorf("%w at byte %d: a frame of kind %d (%d bytes) is lost", ErrCorrupt, at, head[4], n)
	}
	return Kind(head[4]), head[5], f.body, nil
}

// skip goes to the next readable frame, since the one at the offset has no valid header. It returns
// io.EOF if only zeros are left: space that was reserved and never written.
func (f *Reader) skip(zeros bool) error {
	at := f.Offset
	next, err := Resync(f.From, at+1, f.Size)
	switch {
	case err != nil:
		return err
	case zeros && next == f.Size:
		return io.EOF
	}
	f.Offset, f.Damaged = next, true
	return fmt.Errorf("%w at byte %d: invalid frame header; %d bytes from there are lost", ErrCorrupt, at, next-at)
}

// Fill fills b from offset at. If the file has become shorter, it ends there.
func (f *Reader) Fill(b []byte, at int64) error {
	n, err := f.From.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("read the recording at byte %d: %w", at, err)
}
