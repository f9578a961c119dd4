package tape

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Reader reads a tape. It is for one goroutine.
type Reader struct {
	Header Header
	zstd   *zstd.Decoder
	in     *bufio.Reader
	room   []byte
	left   int64
	err    error
}

// Open reads the header of a tape. Its errors are those of this package. The caller must close the
// Reader; r remains the caller's.
func Open(r io.Reader) (*Reader, error) {
	plain := bufio.NewReader(r)
	if err := checkMagic(plain); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	t := &Reader{zstd: z, in: bufio.NewReader(z), left: maxTape}
	k, b, err := t.Next()
	if err == nil && k != Head {
		err = fmt.Errorf("%w: it begins with a frame %v", ErrCorrupt, k)
	}
	if err == nil {
		if jerr := json.Unmarshal(b, &t.Header); jerr != nil {
			err = fmt.Errorf("%w: header: %w", ErrCorrupt, jerr)
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func checkMagic(r *bufio.Reader) error {
	const longest = len(magic) + 8
	var line strings.Builder
	for line.Len() < longest {
		b, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("%w: it has %d bytes", ErrNotTape, line.Len())
		}
		if b == '\n' {
			break
		}
		line.WriteByte(b)
	}
	number, ok := strings.CutPrefix(line.String(), magic)
	version, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil:
		return ErrNotTape
	case version > Version:
		return fmt.Errorf("%w: version %d is newer than %d; use a newer ingero", ErrVersion, version, Version)
	case version < 1:
		return fmt.Errorf("%w: version %d", ErrVersion, version)
	}
	return nil
}

// Next returns the next frame. The payload is valid until the next call. At the end it returns
// [io.EOF]; an error is permanent.
func (t *Reader) Next() (Kind, []byte, error) {
	if t.err != nil {
		return End, nil, t.err
	}
	k, b, err := t.next()
	if err != nil {
		t.err = err
		return End, nil, err
	}
	if k == End {
		t.err = io.EOF
		return End, nil, io.EOF
	}
	return k, b, nil
}

func (t *Reader) next() (Kind, []byte, error) {
	k, err := t.in.ReadByte()
	if err != nil {
		return End, nil, broken(err)
	}
	size, err := binary.ReadUvarint(t.in)
	if err != nil {
		return End, nil, broken(err)
	}
	if t.left -= int64(min(size, maxFrame)) + 2; size > maxFrame || t.left < 0 {
		return End, nil, fmt.Errorf("%w: frame %v of %d bytes", ErrCorrupt, Kind(k), size)
	}
	if uint64(cap(t.room)) < size {
		t.room = make([]byte, size)
	}
	t.room = t.room[:size]
	if _, err := io.ReadFull(t.in, t.room); err != nil {
		return End, nil, broken(err)
	}
	return Kind(k), t.room, nil
}

// broken converts an error within a tape.
func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// Close frees the decoder.
func (t *Reader) Close() { t.zstd.Close() }
