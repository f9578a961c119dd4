package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Table has the rules of one file by address, in words of 32 bits:
//
//	0                   number of the first block: a block is 256 bytes of addresses
//	1                   how many blocks, n
//	2 .. 15             0
//	16 .. 16+n          by block, how many rows begin before it; and one more
//	from 16+n+1 on      the rows, by address: its low byte, and the rule << 16
//
// So finding an address's block takes no search, and the search for its row stays in one block.
type Table struct {
	Words []uint32
	Rows  int
	// Lost counts functions with invalid unwind data, or too much of it, also for the bounds of Rules.
	Lost int
}

const (
	blockShift = 8
	tableHead  = 16
	maxWords   = 16 << 20 // of one table; the largest known needs 6 M
	maxFDEs    = 4 << 20
)

// Averages of a file, from which the first allocations follow. Usual files need no second allocation.
const (
	fdeSize  = 40 // least bytes of .eh_frame for each function
	rowSize  = 5  // least bytes of .eh_frame for each row
	rowsEach = 32 // most rows for each function
)

// recentBits is the number of bits of the hash by which builder.recent finds frames.
const recentBits = 8

var (
	errHostile = errors.New("the tables need more work than their size explains")
	errLarge   = errors.New("the table is too large")
)

// fde locates one function and its record: in the upper half the function's address, minus a base
// that is the same for all; in the lower half the record's offset in the section.
type fde uint64

// builder builds a Table.
type builder struct {
	w     window
	cw    window // CIEs stand before the records that use them, so they have a window of their own
	m     machine
	rules *Rules
	owner uint32          // of the file
	full  bool            // a rule of the function was dropped: no room
	cies  map[uint64]*cie // by offset; nil: invalid
	fdes  []fde           // of the functions
	work  uint64          // bytes that may still be read
	saved []frame         // of the last function, for reuse
	// recent has frames and their rules by hash: most need no other lookup.
	recent [1 << recentBits]struct {
		frame frame
		rule  uint16
	}

	rows  []uint32
	index []uint32
	first uint64 // number of the first block
	at    uint64 // address of the last row
	last  uint16 // rule of the last row
	lost  int
}

// Build builds the table of a file, reading it in small pieces. The error is ErrNoFrames if the
// file has no unwind data.
func Build(r io.ReaderAt, im *Image, rules *Rules) (*Table, error) {
	if im.frames.size == 0 {
		return nil, ErrNoFrames
	}
	b := &builder{w: window{r: r, s: im.frames, step: 16 << 10}, cw: window{r: r, s: im.frames, step: 512},
		m: im.m, rules: rules, owner: im.owner, cies: map[uint64]*cie{}, work: 1<<20 + 4*im.frames.size,
		fdes: make([]fde, 0, min(im.frames.size/fdeSize, maxFDEs/8))}
	if err := b.scan(); err != nil {
		return nil, err
	}
	if len(b.fdes) == 0 {
		return nil, ErrNoFrames
	}
	slices.Sort(b.fdes)
	return b.table()
}

// spend deducts n from the allowed work.
func (b *builder) spend(n int) bool {
	if uint64(n) > b.work {
		b.work = 0
		return false
	}
	b.work -= uint64(n)
	return true
}

// scan finds all functions.
func (b *builder) scan() error {
	for off, base := uint64(0), uint64(0); ; {
		rec, body, next, ok := b.w.record(off)
		if !ok || next <= off {
			return nil // the end, or invalid from here on
		}
		if f, isFDE, ok := b.header(rec, body); ok {
			if len(b.fdes) == 0 {
				base = f.start - min(f.start, 1<<31)
			}
			if len(b.fdes) == maxFDEs || f.start < base || f.start-base >= 1<<32 {
				return errLarge
			}
			b.fdes = append(b.fdes, fde((f.start-base)<<32|off))
		} else if isFDE {
			b.lost++
		}
		if !b.spend(16) {
			return errHostile
		}
		off = next
	}
}

// function is an FDE.
type function struct {
	*cie
	start, end uint64
	program    []byte
}

// header parses the header of an FDE.
func (b *builder) header(rec []byte, body uint64) (f function, isFDE, ok bool) {
	back := uint64(binary.LittleEndian.Uint32(rec))
	if back == 0 {
		return f, false, false
	}
	if back > body {
		return f, true, false
	}
	if f.cie = b.cie(body - back); f.cie == nil {
		return f, true, false
	}
	c := cursor{b: rec[4:]}
	if f.start, ok = c.pointer(f.enc, b.w.s.addr+body+4); !ok {
		return f, true, false
	}
	size, ok := c.pointer(f.enc&0x0f, 0)
	f.end = f.start + size
	if !ok || size == 0 || size > maxSpan || f.end < f.start {
		return f, true, false
	}
	if f.sized {
		c.skip(c.uleb())
	}
	f.program = c.b
	return f, true, !c.bad
}

// ciesMax bounds the cached CIEs.
const ciesMax = 1024

func (b *builder) cie(off uint64) *cie {
	e, known := b.cies[off]
	if known {
		return e
	}
	rec, _, _, ok := b.cw.record(off)
	if ok && len(rec) >= 4 && binary.LittleEndian.Uint32(rec) == 0 && b.spend(512+len(rec)) {
		e, ok = parseCIE(rec[4:], b.m)
		if !ok {
			e = nil
		}
	}
	if len(b.cies) == ciesMax {
		clear(b.cies)
	}
	b.cies[off] = e
	return e
}

// table runs the functions' programs in order of address.
func (b *builder) table() (*Table, error) {
	b.rows = make([]uint32, 0, min(b.w.s.size/rowSize, rowsEach*uint64(len(b.fdes)), maxWords))
	end := uint64(0) // end of the previous function
	for _, d := range b.fdes {
		rec, body, _, ok := b.w.record(uint64(uint32(d)))
		if !ok {
			b.lost++
			continue
		}
		if !b.spend(len(rec)) {
			return nil, errHostile
		}
		f, _, ok := b.header(rec, body)
		if !ok || f.start < end {
			b.lost++
			continue
		}
		if end == 0 {
			b.first = f.start >> blockShift
		}
		if blocks := f.end>>blockShift - b.first; blocks > b.span() {
			return nil, fmt.Errorf("%w: functions %#x bytes apart", errLarge, blocks<<blockShift)
		}
		if end != 0 && f.start > end { // also for padding: a made-up return address can point into it
			b.row(end, 0)
		}
		b.function(f)
		if b.full {
			b.lost, b.full = b.lost+1, false
		}
		end = f.end
		if len(b.rows)+len(b.index) > maxWords {
			return nil, errLarge
		}
	}
	if end == 0 {
		return nil, ErrNoFrames
	}
	b.row(end, 0)
	b.reach(end>>blockShift - b.first + 1)
	head := make([]uint32, tableHead, tableHead+len(b.index))
	head[0], head[1] = uint32(b.first), uint32(len(b.index)-1)
	words := slices.Insert(b.rows, 0, append(head, b.index...)...)
	return &Table{Words: words, Rows: len(b.rows), Lost: b.lost}, nil
}

func (b *builder) function(f function) {
	if f.signal {
		b.row(f.start, b.id(Rule{Kind: KindSignal}))
		return
	}
	run, c, known := runner{cie: f.cie, m: b.m, frame: f.initial, pc: f.start, saved: b.saved[:0]}, cursor{b: f.program}, true
	for step := uint64(1); step != 0 && run.pc < f.end; run.pc += step {
		if step, known = run.next(&c); !known {
			b.lost++
			b.row(run.pc, 0)
			return
		}
		b.row(run.pc, b.rule(&run.frame))
	}
	b.saved = run.saved
}

// rule returns the number of a frame's rule.
func (b *builder) rule(f *frame) uint16 {
	h := uint32(f.off)*0x9e3779b1 ^ uint32(f.fp.off)*0x85ebca77 ^ uint32(f.cfa)<<28
	r := &b.recent[h>>(32-recentBits)]
	if r.frame == *f {
		return r.rule
	}
	id := b.id(f.rule(b.m))
	if !b.full { // a later function with this frame counts as lost, too
		r.frame, r.rule = *f, id
	}
	return id
}

func (b *builder) id(r Rule) uint16 {
	id, ok := b.rules.id(r, b.owner)
	b.full = b.full || !ok
	return id
}

// row sets the rule from an address on.
func (b *builder) row(pc uint64, rule uint16) {
	switch {
	case len(b.rows) > 0 && (pc < b.at || rule == b.last):
		return
	case len(b.rows) > 0 && pc == b.at:
		b.rows = b.rows[:len(b.rows)-1]
	}
	if block := pc>>blockShift - b.first; block >= uint64(len(b.index)) {
		b.reach(block)
	}
	b.rows = append(b.rows, uint32(pc&(1<<blockShift-1))|uint32(rule)<<16)
	b.at, b.last = pc, rule
}

// span returns the maximum number of blocks from the first function to the last. It bounds the
// index by the number of functions: 32 MiB of code, and 256 KiB for each function.
func (b *builder) span() uint64 {
	return min(maxSpan>>blockShift, 1<<17+1<<10*uint64(len(b.fdes)))
}

// reach extends the index up to a block, in which the next rows begin.
func (b *builder) reach(block uint64) {
	if n := uint64(len(b.index)); n <= block {
		b.index = slices.Grow(b.index, int(block-n+1))
	}
	for uint64(len(b.index)) <= block {
		b.index = append(b.index, uint32(len(b.rows)))
	}
}

// Find returns the rule of an address of the file, as the kernel's walker would.
func (t *Table) Find(pc uint64, rules *Rules) Rule {
	block := pc>>blockShift - uint64(t.Words[0])
	if block >= uint64(t.Words[1]) {
		return Rule{}
	}
	rows := t.Words[tableHead+t.Words[1]+1:]
	lo, hi := t.Words[tableHead+block], t.Words[tableHead+block+1]
	n, _ := slices.BinarySearchFunc(rows[lo:hi], uint32(pc&(1<<blockShift-1)), func(row, low uint32) int {
		if row&(1<<blockShift-1) <= low {
			return -1
		}
		return 1
	})
	if at := int(lo) + n - 1; at >= 0 {
		return rules.all[rows[at]>>16]
	}
	return Rule{}
}
