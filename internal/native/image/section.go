package image

import (
	"encoding/binary"
	"errors"
	"io"

	"ingero/internal/elffile"
)

var le = binary.LittleEndian

// File is the file of an image.
type File interface {
	io.ReaderAt
	io.Closer
}

// object is an ELF file.
type object struct {
	*elffile.File
	file    File
	buildID string
}

func openObject(f File) (*object, error) {
	e, err := elffile.OpenDebug(f)
	if err != nil {
		return nil, err
	}
	return &object{e, f, e.BuildID()}, nil
}

func (o *object) hasInfo() bool {
	return o.Section(".debug_info").Size+o.Section(".zdebug_info").Size > 0
}

// section is a section of debug information.
type section struct{ elffile.Data }

// budget bounds the work for one Find, in bytes, since a file can make its reader read the same bytes
// again and again.
type budget struct{ left int }

// readCost is the fixed cost of a read, in bytes.
const readCost = 64

var errSpent = errors.New("the budget of reads is spent")

// metered deducts what is read from a budget, and fails when nothing is left.
type metered struct {
	io.ReaderAt
	budget *budget
}

func (m metered) ReadAt(b []byte, off int64) (int, error) {
	m.budget.left -= len(b) + readCost
	if m.budget.left < 0 {
		return 0, errSpent
	}
	return m.ReaderAt.ReadAt(b, off)
}
