package unwind

import "strings"

// machine has the DWARF numbers of the registers that unwinding needs.
type machine struct {
	sp, fp uint64
	// push means that a call pushes the return address onto the stack.
	push bool
}

var (
	x86   = machine{fp: 6, sp: 7, push: true}
	arm64 = machine{fp: 29, sp: 31}
)

// place is where a register of the caller was saved.
type place struct {
	how howKept
	off int64
}

type howKept uint8

const (
	kept      howKept = iota // in the register itself
	atCFA                    // at CFA + off
	atFP                     // at fp + off
	undefined                // nowhere
	elsewhere                // in a place that the tables cannot express
)

// frame is the unwind state at one address.
type frame struct {
	cfa    Kind // KindNone: by another register or an unsupported expression
	off    int64
	arg    uint8
	fp, ra place
}

// cie is the common information of several functions.
type cie struct {
	code    uint64 // unit of address deltas
	data    int64  // unit of offsets
	ra      uint64 // number of the return address register
	enc     uint8  // encoding of addresses
	sized   bool   // functions have language data, with a length
	signal  bool   // a signal handler returns here
	initial frame
}

// parseCIE parses a CIE that follows its length and id.
func parseCIE(b []byte, m machine) (*cie, bool) {
	c := cursor{b: b}
	version := c.u8()
	aug := c.text()
	if version == 4 {
		c.skip(2) // sizes of addresses and segments
	}
	e := &cie{code: c.uleb(), data: c.sleb(), enc: encAbs}
	if version == 1 {
		e.ra = uint64(c.u8())
	} else {
		e.ra = c.uleb()
	}
	rest, sized := strings.CutPrefix(aug, "z")
	if e.sized = sized; sized {
		n := c.uleb()
		if n > uint64(len(c.b)) {
			return nil, false
		}
		data := cursor{b: c.take(int(n))}
		if !e.augment(rest, &data) {
			return nil, false
		}
	} else if aug != "" {
		return nil, false
	}
	if c.bad || version != 1 && version != 3 && version != 4 {
		return nil, false
	}
	run := runner{cie: e, m: m}
	for step, ok := uint64(1), true; step != 0; {
		if step, ok = run.next(&c); !ok {
			return nil, false
		}
	}
	e.initial = run.frame
	return e, true
}

func (e *cie) augment(aug string, c *cursor) bool {
	for _, a := range aug {
		switch a {
		case 'R':
			e.enc = c.u8()
		case 'L':
			c.u8()
		case 'P':
			enc := c.u8()
			if _, ok := c.pointer(enc&0x0f, 0); !ok {
				return false
			}
		case 'S':
			e.signal = true
		case 'B', 'G': // arm64: signed return addresses, memory tagging
		default:
			return false
		}
	}
	return !c.bad
}

// Instructions (DWARF 5, 6.4.2, and GNU extensions).
const (
	cfaAdvance    = 0x40 // and the two others with an operand in the low bits
	cfaOffset     = 0x80
	cfaRestore    = 0xc0
	cfaNop        = 0x00
	cfaSet        = 0x01
	cfaAdvance1   = 0x02
	cfaAdvance2   = 0x03
	cfaAdvance4   = 0x04
	cfaOffsetExt  = 0x05
	cfaRestoreExt = 0x06
	cfaUndefined  = 0x07
	cfaSame       = 0x08
	cfaRegister   = 0x09
	cfaRemember   = 0x0a
	cfaRecall     = 0x0b
	cfaDef        = 0x0c
	cfaDefReg     = 0x0d
	cfaDefOff     = 0x0e
	cfaDefExpr    = 0x0f
	cfaExpr       = 0x10
	cfaOffsetSF   = 0x11
	cfaDefSF      = 0x12
	cfaDefOffSF   = 0x13
	cfaValOff     = 0x14
	cfaValOffSF   = 0x15
	cfaValExpr    = 0x16
	cfaWindowSave = 0x2d // arm64: from here on the return address is signed
	cfaArgsSize   = 0x2e
	cfaOffsetNeg  = 0x2f
)

// rememberMax bounds the states that a function saves; compilers nest two.
const rememberMax = 16

// runner runs the instructions of one function.
type runner struct {
	*cie
	m     machine
	frame frame
	pc    uint64
	saved []frame
}

// next runs instructions up to one that advances the address. It returns the distance, 0 at the
// end. The state holds from pc to there. ok is false at an unknown instruction; then the caller must
// not use what follows.
func (r *runner) next(c *cursor) (step uint64, ok bool) {
	for len(c.b) > 0 && step == 0 {
		op := c.u8()
		switch low := uint64(op & 0x3f); op & 0xc0 {
		case cfaAdvance:
			step = low * r.code
		case cfaOffset:
			r.set(low, place{atCFA, int64(c.uleb()) * r.data})
		case cfaRestore:
			r.restore(low)
		default:
			if op >= cfaAdvance1 && op <= cfaAdvance4 {
				step = c.uint(1<<(op-cfaAdvance1)) * r.code
			} else if !r.one(op, c) {
				return 0, false
			}
		}
		if c.bad {
			return 0, false
		}
	}
	return step, true
}

// one runs an instruction without an operand in its low bits.
func (r *runner) one(op uint8, c *cursor) bool {
	switch op {
	case cfaNop, cfaWindowSave:
	case cfaArgsSize:
		c.uleb()
	case cfaRemember:
		if len(r.saved) == rememberMax {
			return false
		}
		r.saved = append(r.saved, r.frame)
	case cfaRecall:
		if len(r.saved) == 0 {
			return false
		}
		r.frame = r.saved[len(r.saved)-1]
		r.saved = r.saved[:len(r.saved)-1]
	case cfaDef, cfaDefSF, cfaDefReg, cfaDefOff, cfaDefOffSF, cfaDefExpr:
		r.define(op, c)
	default:
		return r.register(op, c)
	}
	return true
}

// register runs the instructions whose first operand is a register.
func (r *runner) register(op uint8, c *cursor) bool {
	switch op {
	case cfaOffsetExt, cfaRestoreExt, cfaUndefined, cfaSame, cfaRegister, cfaExpr, cfaOffsetSF, cfaValOff, cfaValOffSF, cfaValExpr, cfaOffsetNeg:
	default:
		return false
	}
	reg := c.uleb()
	switch op {
	case cfaOffsetExt:
		r.set(reg, place{atCFA, int64(c.uleb()) * r.data})
	case cfaOffsetSF:
		r.set(reg, place{atCFA, c.sleb() * r.data})
	case cfaOffsetNeg:
		r.set(reg, place{atCFA, -int64(c.uleb()) * r.data})
	case cfaRestoreExt:
		r.restore(reg)
	case cfaUndefined:
		r.set(reg, place{how: undefined})
	case cfaSame:
		r.set(reg, place{how: kept})
	case cfaExpr:
		r.set(reg, r.expression(block(c)))
	case cfaValExpr:
		block(c)
		r.set(reg, place{how: elsewhere})
	case cfaRegister, cfaValOff, cfaValOffSF:
		c.uleb()
		r.set(reg, place{how: elsewhere})
	}
	return true
}

func (r *runner) set(reg uint64, p place) {
	switch reg {
	case r.m.fp:
		r.frame.fp = p
	case r.ra:
		r.frame.ra = p
	}
}

func (r *runner) restore(reg uint64) {
	switch reg {
	case r.m.fp:
		r.frame.fp = r.initial.fp
	case r.ra:
		r.frame.ra = r.initial.ra
	}
}

// define runs the instructions that define the CFA.
func (r *runner) define(op uint8, c *cursor) {
	f := &r.frame
	switch op {
	case cfaDef:
		f.cfa, f.off = r.base(c.uleb()), int64(c.uleb())
	case cfaDefSF:
		f.cfa, f.off = r.base(c.uleb()), c.sleb()*r.data
	case cfaDefReg:
		f.cfa = r.base(c.uleb())
	case cfaDefOff:
		f.off = int64(c.uleb())
	case cfaDefOffSF:
		f.off = c.sleb() * r.data
	case cfaDefExpr:
		r.defineBy(block(c))
	}
}

func (r *runner) base(reg uint64) Kind {
	switch reg {
	case r.m.sp:
		return KindSP
	case r.m.fp:
		return KindFP
	}
	return KindNone
}
