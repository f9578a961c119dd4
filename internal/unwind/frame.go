package unwind

import (
	"bytes"
	"math"
)

// block reads an expression.
func block(c *cursor) []byte {
	n := c.uleb()
	if n > uint64(len(c.b)) {
		c.skip(n)
		return nil
	}
	return c.take(int(n))
}

// Operations of expressions (DWARF 5, 2.5).
const (
	opDeref = 0x06
	opLit   = 0x30 // .. 0x4f
	opBreg  = 0x70 // .. 0x8f: register plus offset
)

// plt is the expression that linkers write for a procedure linkage table. Each entry has 16 bytes,
// with a push somewhere; byte 6 is the push's position.
var plt = []byte{opBreg + 7, 8, opBreg + 16, 0, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24, 0x22}

const pltPush = 6

// defineBy sets the CFA from an expression, if it is one that compilers write.
func (r *runner) defineBy(b []byte) {
	f := &r.frame
	f.cfa, f.off, f.arg = KindNone, 0, 0
	if r.m.push && len(b) == len(plt) && bytes.Equal(b[:pltPush], plt[:pltPush]) && bytes.Equal(b[pltPush+1:], plt[pltPush+1:]) {
		if n := b[pltPush] - opLit; n < 16 {
			f.cfa, f.off, f.arg = KindPLT, 8, n
		}
		return
	}
	reg, off, rest, ok := breg(b)
	if !ok || len(rest) != 1 || rest[0] != opDeref {
		return
	}
	switch r.base(reg) {
	case KindSP:
		f.cfa, f.off = KindSPDeref, off
	case KindFP:
		f.cfa, f.off = KindFPDeref, off
	}
}

// expression returns the place that an expression describes. Only expressions relative to the frame
// pointer are supported.
func (r *runner) expression(b []byte) place {
	reg, off, rest, ok := breg(b)
	if !ok || len(rest) != 0 || reg != r.m.fp {
		return place{how: elsewhere}
	}
	return place{atFP, off}
}

func breg(b []byte) (reg uint64, off int64, rest []byte, ok bool) {
	c := cursor{b: b}
	op := c.u8()
	if op < opBreg || op > opBreg+31 {
		return 0, 0, nil, false
	}
	off = c.sleb()
	return uint64(op - opBreg), off, c.b, !c.bad
}

// rule returns the kernel's rule for a frame.
func (f *frame) rule(m machine) Rule {
	r := Rule{Kind: f.cfa, Arg: f.arg, CFA: int32(f.off)}
	switch {
	case f.ra.how == undefined:
		return Rule{Kind: KindEnd}
	case !fits(f.off) || !fits(f.fp.off) || !fits(f.ra.off):
		return Rule{}
	case f.cfa == KindNone:
		return Rule{}
	case f.ra.how == atCFA && f.ra.off != 0:
		r.RA = int32(f.ra.off)
	case f.ra.how == kept && !m.push:
	default:
		return Rule{}
	}
	if f.cfa != KindPLT {
		r.Arg = 0
	}
	switch {
	case f.cfa == KindFPDeref:
		if f.fp.how != atFP {
			return Rule{}
		}
		r.FP = int32(f.fp.off)
	case f.fp.how == kept, f.fp.how == undefined:
	case f.fp.how == atCFA && f.fp.off != 0:
		r.FP = int32(f.fp.off)
	default:
		return Rule{}
	}
	return r
}

func fits(v int64) bool { return v >= math.MinInt32 && v <= math.MaxInt32 }
