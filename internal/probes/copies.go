package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/cilium/ebpf"
)

// copies numbers libraries whose probes are identical, such as files that containers made from one
// layer. Their probes may share an inode. The programs then see every call once per copy, and need
// the number to distinguish them.
type copies struct {
	mu      sync.Mutex
	changes *ebpf.Variable    // counts links made and closed
	n       uint32            // value of changes
	taken   map[uint64]uint64 // by hash of the probes: set of numbers
	next    int               // number to assign next, if it is free
}

// libraryCopy is the number of one attached library.
type libraryCopy struct {
	set    *copies
	like   uint64
	number uint8
}

// maxCopies is the size of a set in a thread's state.
const maxCopies = 64

var errCopies = errors.New("64 copies of this library are attached, which is the maximum")

var copySeed = maphash.MakeSeed()

// take assigns a number to one more library with these probes. A number that has just become free comes
// last: a process that was being started may hold its links for a moment (see [closeLinks]).
func (c *copies) take(sites []site) (*libraryCopy, error) {
	var h maphash.Hash
	h.SetSeed(copySeed)
	for i := range sites {
		_ = binary.Write(&h, binary.LittleEndian, [2]uint64{uint64(sites[i].row), sites[i].offset})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	like := h.Sum64()
	free := ^c.taken[like]
	if free == 0 {
		return nil, errCopies
	}
	number := (c.next + bits.TrailingZeros64(bits.RotateLeft64(free, -c.next))) % maxCopies
	c.next = (number + 1) % maxCopies
	c.taken[like] |= 1 << number
	return &libraryCopy{c, like, uint8(number)}, nil
}

// changed signals the programs that links were made or closed. Call it afterwards.
func (c *copies) changed() error {
	c.n++
	if err := c.changes.Set(c.n); err != nil {
		return fmt.Errorf("publish changed links: %w", err)
	}
	return nil
}

// linked records that the library's links are made.
func (x *libraryCopy) linked() error {
	x.set.mu.Lock()
	defer x.set.mu.Unlock()
	return x.set.changed()
}

// Close releases the number, once the library's links are closed.
func (x *libraryCopy) Close() error {
	x.set.mu.Lock()
	defer x.set.mu.Unlock()
	x.set.taken[x.like] &^= 1 << x.number
	if x.set.taken[x.like] == 0 {
		delete(x.set.taken, x.like)
	}
	return x.set.changed()
}
