package log

import "io"

// Output is the file below a log.
type Output interface {
	io.Writer
	Truncate(size int64) error
}

// Writer appends frames to a log. It is not safe for concurrent use. Frames that Write has not
// written are lost only if the process is killed.
type Writer struct {
	to      Output
	size    int64 // bytes of whole frames in the file
	pending []byte
}

// NewWriter starts a log in a file, which must be empty.
func NewWriter(to Output) *Writer { return &Writer{to: to, pending: []byte(Magic)} }

// Append adds a frame to the pending ones.
func (w *Writer) Append(kind Kind, version uint8, body []byte) {
	w.pending = Append(w.pending, kind, version, body)
}

// Pending returns the size of the pending frames in bytes.
func (w *Writer) Pending() int { return len(w.pending) }

// Drop discards the pending frames.
func (w *Writer) Drop() { w.pending = w.pending[:0] }

// Size returns the size of the file in bytes.
func (w *Writer) Size() int64 { return w.size }

// Write writes the pending frames. If it fails, they stay pending, and the file still ends with a
// whole frame.
func (w *Writer) Write() error {
	if len(w.pending) == 0 {
		return nil
	}
	n, err := w.to.Write(w.pending)
	if err != nil {
		if n > 0 {
			_ = w.to.Truncate(w.size) // else a reader truncates it
		}
		return err
	}
	w.size += int64(n)
	w.pending = w.pending[:0]
	return nil
}
