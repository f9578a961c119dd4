package image

// Entries of range lists (DWARF 5, 7.25).
const (
	rleEnd          = 0
	rleBasex        = 1
	rleStartxEndx   = 2
	rleStartxLength = 3
	rleOffsetPair   = 4
	rleBase         = 5
	rleStartEnd     = 6
	rleStartLength  = 7
)

// maxList bounds the bytes of one range list.
const maxList = 4 << 20

// rangesOf calls fn for each address range of an entry, until fn returns false.
func (u *loaded) rangesOf(x *die, fn func(lo, hi uint64) bool) {
	if x.ranges.form != 0 {
		if u.header.version >= 5 {
			u.rnglist(x.ranges, fn)
		} else {
			u.rangeList(x.ranges.u, fn)
		}
		return
	}
	lo, ok := u.address(x.low)
	if !ok || x.high.form == 0 {
		return
	}
	hi, ok := u.address(x.high)
	if !ok {
		hi = lo + x.high.u
	}
	if hi > lo {
		fn(lo, hi)
	}
}

// window reads a section in growing pieces, for a parser that may need more.
func (s section) window(at uint64, parse func(*cursor)) {
	var small [512]byte
	for size := len(small); size <= maxList; size *= 8 {
		b, err := s.Some(small[:], at, size)
		if err != nil {
			return
		}
		c := cursor{b: b}
		if parse(&c); !c.bad || len(b) < size {
			return
		}
	}
}

// pairs wraps fn so that repeated parses report each range once.
func pairs(fn func(lo, hi uint64) bool) (add func(lo, hi uint64) bool, again func()) {
	seen, n := 0, 0
	return func(lo, hi uint64) bool {
			if n++; n <= seen {
				return true
			}
			seen = n
			return lo >= hi || fn(lo, hi)
		}, func() {
			n = 0
		}
}

// rangeList reads a list of DWARF 4 and before.
func (u *loaded) rangeList(at uint64, fn func(lo, hi uint64) bool) {
	add, again := pairs(fn)
	u.d.sec[secRanges].window(at, func(c *cursor) {
		again()
		base := u.low
		for {
			lo, hi := c.u64(), c.u64()
			switch {
			case c.bad, lo == 0 && hi == 0:
				return
			case lo == 1<<64-1:
				base = hi
			case !add(base+lo, base+hi):
				return
			}
		}
	})
}

// rnglist reads a list of DWARF 5.
func (u *loaded) rnglist(v value, fn func(lo, hi uint64) bool) {
	s, at := u.d.sec[secRnglists], v.u
	if v.form == formRnglistx {
		width := uint64(4)
		if u.header.wide {
			width = 8
		}
		off, ok := s.number(u.rngBase, v.u, width)
		if !ok {
			return
		}
		at = u.rngBase + off
	}
	indexed := func(c *cursor) uint64 {
		a, _ := u.address(value{form: formAddrx, u: c.uleb()})
		return a
	}
	add, again := pairs(fn)
	s.window(at, func(c *cursor) {
		again()
		base := u.low
		for {
			var lo, hi uint64
			switch c.u8() {
			case rleBasex:
				base = indexed(c)
			case rleBase:
				base = c.u64()
			case rleStartxEndx:
				lo, hi = indexed(c), indexed(c)
			case rleStartxLength:
				lo = indexed(c)
				hi = lo + c.uleb()
			case rleOffsetPair:
				lo, hi = base+c.uleb(), base+c.uleb()
			case rleStartEnd:
				lo, hi = c.u64(), c.u64()
			case rleStartLength:
				lo = c.u64()
				hi = lo + c.uleb()
			default: // rleEnd
				return
			}
			if c.bad || hi > 0 && !add(lo, hi) {
				return
			}
		}
	})
}
