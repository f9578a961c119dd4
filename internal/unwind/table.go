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
	// Lost counts functions with invalid unwind data, or too much of it.
	Lost int
}

const (
	blockShift = 8
	tableHead  = 16
	maxWords   = 16 << 20 // of one table; the largest known needs 6 M
	maxFDEs    = 4 << 20
)

var (
	errHostile = errors.New("the tables need more work than their size explains")
	errLarge   = errors.New("the table is too large")
)

// fde locates one function and its record in the section.
type fde struct {
	start uint64
	off   uint32
}

// builder builds a Table.
type builder struct {
	w     window
	cw    window // CIEs stand before the records that use them, so they have a window of their own
	m     machine
	rules *Rules
	cies  map[uint64]*cie // by offset; nil: invalid
	fdes  []fde
	work  uint64 // bytes that may still be read

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
		m: im.m, rules: rules, cies: map[uint64]*cie{}, work: 1<<20 + 4*im.frames.size}
	if err := b.scan(); err != nil {
		return nil, err
	}
	if len(b.fdes) == 0 {
		return nil, ErrNoFrames
	}
	slices.SortFunc(b.fdes, func(x, y fde) int {
		switch {
		case x.start != y.start && x.start < y.start, x.start == y.start && x.off < y.off:
			return -1
		case x == y:
			return 0
		}
		return 1
	})
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
	for off := uint64(0); ; {
		rec, body, next, ok := b.w.record(off)
		if !ok || next <= off {
			return nil // the end, or invalid from here on
		}
		if f, isFDE, ok := b.header(rec, body); ok {
			if len(b.fdes) == maxFDEs {
				return errLarge
			}
			b.fdes = append(b.fdes, fde{f.start, uint32(off)})
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
	b.first = b.fdes[0].start >> blockShift
	end := uint64(0) // end of the previous function
	for _, d := range b.fdes {
		rec, body, _, ok := b.w.record(uint64(d.off))
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
		if f.end>>blockShift-b.first > b.span() {
			return nil, fmt.Errorf("%w: functions %#x bytes apart", errLarge, f.end-b.fdes[0].start)
		}
		if end != 0 && f.start > end { // also for padding: a made-up return address can point into it
			b.row(end, 0)
		}
		b.function(f)
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
	words := make([]uint32, tableHead, tableHead+len(b.index)+len(b.rows))
	words[0], words[1] = uint32(b.first), uint32(len(b.index)-1)
	words = append(append(words, b.index...), b.rows...)
	return &Table{Words: words, Rows: len(b.rows), Lost: b.lost}, nil
}

func (b *builder) function(f function) {
	if f.signal {
		b.row(f.start, b.rules.id(Rule{Kind: KindSignal}))
		return
	}
	run := runner{cie: f.cie, m: b.m, frame: f.initial, pc: f.start}
	known := run.all(f.program, func(pc uint64, fr frame) {
		if pc < f.end {
			b.row(pc, b.rules.id(fr.rule(b.m)))
		}
	})
	switch {
	case run.pc >= f.end:
	case known:
		b.row(run.pc, b.rules.id(run.frame.rule(b.m)))
	default:
		b.lost++
		b.row(run.pc, 0)
	}
}

// row sets the rule from an address on.
func (b *builder) row(pc uint64, rule uint16) {
	switch {
	case len(b.rows) > 0 && (pc < b.at || rule == b.last):
		return
	case len(b.rows) > 0 && pc == b.at:
		b.rows = b.rows[:len(b.rows)-1]
	}
	b.reach(pc>>blockShift - b.first)
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
