package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// The file of INGERO_SIM_COUNTS: struct counted of src/counts.c.
const (
	countBytes = 512
	maxCounts  = 8192
)

// Counts are the exact counts that the simulated libraries keep: calls by function, launches by
// kernel name. Several programs may share one file.
type Counts struct{ path string }

// NewCounts creates the file at path, which must not exist. All programs with [Counts.Env] count
// there.
func NewCounts(path string) (*Counts, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(maxCounts * countBytes); err != nil {
		return nil, err
	}
	return &Counts{path}, nil
}

// Env is the environment variable that makes a program count.
func (c *Counts) Env() string { return "INGERO_SIM_COUNTS=" + c.path }

// Read returns the counts so far, by name. Names are truncated to 495 bytes.
func (c *Counts) Read() (map[string]uint64, error) {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return nil, err
	}
	if len(b) != maxCounts*countBytes {
		return nil, fmt.Errorf("%s has %d bytes, want %d", c.path, len(b), maxCounts*countBytes)
	}
	out := map[string]uint64{}
	for ; len(b) > 0; b = b[countBytes:] {
		if binary.NativeEndian.Uint32(b) == 2 {
			name, _, _ := bytes.Cut(b[16:countBytes], []byte{0})
			out[string(name)] = binary.NativeEndian.Uint64(b[8:])
		}
	}
	return out, nil
}
