package image

import (
	"errors"
	"fmt"
)

var errXZ = errors.New("unsupported xz format")

// unxz decompresses a file of one xz stream (the xz file format 1.1.0) with LZMA2, as
// .gnu_debugdata has it. More than limit bytes are an error. It ignores the checksums, which a
// hostile writer can set as well.
func unxz(b []byte, limit int) ([]byte, error) {
	if len(b) < 12 || string(b[:6]) != "\xfd7zXZ\x00" || b[6] != 0 || b[7] > 15 {
		return nil, errXZ
	}
	check := []int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[b[7]]
	d := lzma{limit: limit}
	for b = b[12:]; len(b) > 0 && b[0] != 0; { // 0 begins the index, after the last block
		head := (int(b[0]) + 1) * 4
		if head > len(b) {
			return nil, errXZ
		}
		if err := blockHeader(b[:head]); err != nil {
			return nil, err
		}
		n, err := d.chunks(b[head:])
		if err != nil {
			return nil, err
		}
		next := head + (n+3)&^3 + check
		if next > len(b) {
			return nil, errXZ
		}
		b = b[next:]
	}
	return d.out, nil
}

// blockHeader refuses a block with filters other than LZMA2.
func blockHeader(b []byte) error {
	flags, at := b[1], 2
	for _, has := range []byte{0x40, 0x80} { // the sizes of the block
		for flags&has != 0 && at < len(b) {
			at++
			if b[at-1] < 0x80 {
				break
			}
		}
	}
	if flags&0x3f != 0 || at+3 > len(b) || b[at] != 0x21 || b[at+1] != 1 {
		return fmt.Errorf("%w: a filter other than LZMA2", errXZ)
	}
	return nil
}

// lzma is the state of a decoder, as in its specification.
type lzma struct {
	out   []byte
	limit int
	dict  int // start of the dictionary in out

	in         []byte // one chunk
	rng, code  uint32
	lc, lp, pb uint
	state      uint
	rep        [4]uint32
	ready      bool // has properties
	bad        bool

	isRep, rep0, rep1, rep2 [12]uint16
	rep0Long, isMatch       [12 << 4]uint16
	slots                   [4][64]uint16
	special                 [115]uint16
	align                   [16]uint16
	lens, repLens           lengths
	literals                []uint16
}

type lengths struct {
	choice   [2]uint16
	low, mid [16][8]uint16
	high     [256]uint16
}

const probInit = 1 << 10

func fill(lists ...[]uint16) {
	for _, l := range lists {
		for i := range l {
			l[i] = probInit
		}
	}
}

func (l *lengths) reset() {
	fill(l.choice[:], l.high[:])
	for i := range l.low {
		fill(l.low[i][:], l.mid[i][:])
	}
}

func (d *lzma) reset() {
	d.state, d.rep = 0, [4]uint32{}
	fill(d.isRep[:], d.rep0[:], d.rep1[:], d.rep2[:], d.rep0Long[:], d.isMatch[:], d.special[:], d.align[:])
	for i := range d.slots {
		fill(d.slots[i][:])
	}
	d.lens.reset()
	d.repLens.reset()
	n := 0x300 << (d.lc + d.lp)
	if len(d.literals) != n {
		d.literals = make([]uint16, n)
	}
	fill(d.literals)
}

// chunks decodes LZMA2 up to its end, and returns its length in bytes.
func (d *lzma) chunks(b []byte) (int, error) {
	at, fresh := 0, false
	for {
		if at >= len(b) {
			return 0, errXZ
		}
		control := b[at]
		switch {
		case control == 0:
			return at + 1, nil
		case control <= 2:
			if at+3 > len(b) {
				return 0, errXZ
			}
			n := int(b[at+1])<<8 + int(b[at+2]) + 1
			if at += 3; at+n > len(b) || len(d.out)+n > d.limit || control == 2 && !fresh {
				return 0, errXZ
			}
			if control == 1 {
				d.dict, fresh = len(d.out), true
			}
			d.out = append(d.out, b[at:at+n]...)
			at += n
		case control >= 0x80 && at+6 <= len(b):
			n := (int(control&0x1f)<<16 | int(b[at+1])<<8 | int(b[at+2])) + 1
			packed := int(b[at+3])<<8 + int(b[at+4]) + 1
			at += 5
			if control>>5&3 == 3 {
				d.dict, fresh = len(d.out), true
			}
			if control>>5&3 >= 2 {
				p := uint(b[at])
				at++
				d.lc, d.lp, d.pb, d.ready = p%9, p/9%5, p/45, true
				if p >= 225 || d.lc+d.lp > 4 {
					return 0, errXZ
				}
			}
			if !fresh || !d.ready || at+packed > len(b) || packed < 5 || len(d.out)+n > d.limit {
				return 0, errXZ
			}
			if control>>5&3 >= 1 {
				d.reset()
			}
			d.in = b[at : at+packed]
			if d.chunk(len(d.out) + n); d.bad {
				return 0, errXZ
			}
			at += packed
		default:
			return 0, errXZ
		}
	}
}
