package tape

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Writer writes a tape. It is for one goroutine. After an error it writes nothing more.
type Writer struct {
	zstd *zstd.Encoder
	head [1 + binary.MaxVarintLen32]byte
	err  error
}

// Create starts a tape. The caller closes w after the Writer.
func Create(w io.Writer, h *Header) (*Writer, error) {
	if _, err := fmt.Fprintf(w, "%s%d\n", magic, Version); err != nil {
		return nil, fmt.Errorf("write raw tape: %w", err)
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, fmt.Errorf("write raw tape: %w", err)
	}
	t := &Writer{zstd: z}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write raw tape: %w", err), z.Close())
	}
	t.Frame(Head, text)
	return t, nil
}

// Fail makes Close return an error, and stops writing.
func (t *Writer) Fail(err error) { t.fail(err) }

// Frame appends a frame whose payload is the concatenated parts. Close returns its error.
func (t *Writer) Frame(k Kind, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > maxFrame {
		t.fail(fmt.Errorf("frame %v of %d bytes is too long", k, size))
	}
	t.head[0] = byte(k)
	t.write(t.head[:1+binary.PutUvarint(t.head[1:], uint64(size))])
	for _, p := range parts {
		t.write(p)
	}
}

func (t *Writer) write(b []byte) {
	if t.err == nil {
		_, err := t.zstd.Write(b)
		t.fail(err)
	}
}

func (t *Writer) fail(err error) {
	if t.err == nil && err != nil {
		t.err = fmt.Errorf("write raw tape: %w", err)
	}
}

// Close ends the tape, and returns the first error.
func (t *Writer) Close() error {
	t.Frame(End)
	t.fail(t.zstd.Close())
	return t.err
}
