package image

import (
	"bytes"
	"encoding/binary"
	"sort"

	"ingero/internal/elffile"
)

// Limits of debug information.
const (
	maxUnits  = 1 << 18
	maxRanges = 1 << 20
	maxAttrs  = 1 << 16  // of all abbreviations of one unit
	maxBlobs  = 32 << 20 // of one image: bytes uncompressed from its sections
	// maxWork bounds the bytes, and the flag attributes that take no space (DW_FORM_flag_present, DW_FORM_implicit_const), that are read for one Find. The list of units of a library with gigabytes of
	// debug information takes a tenth.
	maxWork = 256 << 20
	// The bound is lower for small sections: leastWork, plus workByte times their size, plus
	// workAddr for the functions' names at each requested address.
	leastWork = 1 << 20
	workByte  = 64
	workAddr  = 16 << 10
)

// The used sections.
const (
	secInfo = iota
	secAbbrev
	secLine
	secStr
	secLineStr
	secRanges
	secRnglists
	secAddr
	secStrOffsets
	numSections
)

var sectionNames = [numSections]string{"info", "abbrev", "line", "str", "line_str", "ranges", "rnglists", "addr", "str_offsets"}

// dwarf is the debug information of an object.
type dwarf struct {
	o         *object
	loads     elffile.Loads // segments of the code
	sec       [numSections]section
	blobs     int // bytes held for compressed sections
	units     []unit
	spans     []span // by address
	alt       *dwarf // common parts that dwz moved
	open      map[int]*loaded
	openBytes int // bytes of open
	work      budget
}

// unit locates a compilation unit in the section.
type unit struct {
	off  uint64
	size uint64 // including its header
}

// span is a range of addresses of a unit.
type span struct {
	lo, hi uint32 // relative to the base of the image
	unit   uint32
}

// newDwarf reads the section headers. It returns nil if there is no usable debug information.
func newDwarf(o *object) *dwarf {
	d := &dwarf{o: o, loads: o.Loads, open: map[int]*loaded{}, work: budget{maxWork}}
	room := uint64(maxBlobs)
	for i, name := range sectionNames {
		s := o.Section(".debug_" + name)
		if s.Name == "" {
			s = o.Section(".zdebug_" + name)
		}
		if s.Size == 0 {
			continue
		}
		if s.Compressed() {
			b, err := s.Contents(room)
			if err != nil {
				continue
			}
			s.Data = elffile.Data{R: bytes.NewReader(b), Size: uint64(len(b))}
			room -= s.Size
			d.blobs += len(b)
		}
		d.sec[i] = section{s.Data}
		d.sec[i].R = metered{s.R, &d.work}
	}
	if d.sec[secInfo].Size == 0 || d.sec[secAbbrev].Size == 0 {
		return nil
	}
	return d
}

// refill sets the budget for n addresses.
func (d *dwarf) refill(n int) {
	d.work.left = d.limit(n)
	if d.alt != nil {
		d.alt.work.left = d.alt.limit(n)
	}
}

// limit is the number of bytes that may be read for n addresses.
func (d *dwarf) limit(n int) int {
	size := uint64(0)
	for i := range d.sec {
		size += min(d.sec[i].Size, maxWork)
	}
	return int(min(leastWork+size*workByte+uint64(n)*workAddr, maxWork))
}

// spent reports whether the last Find exceeded its budget.
func (d *dwarf) spent() bool {
	return d.work.left < 0 || d.alt != nil && d.alt.work.left < 0
}

// bytes returns the memory held, in bytes.
func (d *dwarf) bytes() int {
	if d == nil {
		return 0
	}
	return d.blobs + len(d.units)*16 + len(d.spans)*12 + d.openBytes + d.alt.bytes()
}

// header is the header of a unit.
type header struct {
	version int
	wide    bool   // 64-bit DWARF
	kind    byte   // DW_UT_*
	abbrev  uint64 // offset of its abbreviations
	entries int    // size of the header
	code    uint64 // code of the first entry's abbreviation
	size    uint64 // size of the unit, including its header
}

// DW_UT_* of DWARF 5.
const (
	utType      = 2
	utSkeleton  = 4
	utSplit     = 5
	utSplitType = 6
)

// header reads the header of the unit at an offset.
func (d *dwarf) header(off uint64) (h header, ok bool) {
	var buf [48]byte
	b, err := d.sec[secInfo].Some(buf[:], off, len(buf))
	if err != nil {
		return h, false
	}
	c := cursor{b: b}
	length := uint64(c.u32())
	if h.wide = length == 1<<32-1; h.wide {
		length = c.u64()
	}
	h.size = length + uint64(c.off)
	h.version = int(c.u16())
	if h.version < 2 || h.version > 5 || length > d.sec[secInfo].Size || h.size > d.sec[secInfo].Size-off {
		return h, false
	}
	var address byte
	if h.version == 5 {
		h.kind = c.u8()
		address = c.u8()
		h.abbrev = c.word(h.wide)
		switch h.kind {
		case utSkeleton, utSplit:
			c.skip(8)
		case utType, utSplitType:
			c.skip(8)
			c.word(h.wide)
		}
	} else {
		h.abbrev = c.word(h.wide)
		address = c.u8()
	}
	h.entries = c.off
	ok = !c.bad && address == 8
	h.code = c.uleb()
	return h, ok
}

// list finds all units and their addresses.
func (d *dwarf) list(base uint64) {
	for off := uint64(0); off < d.sec[secInfo].Size && len(d.units) < maxUnits && d.work.left > 0; {
		h, ok := d.header(off)
		if h.size < 11 {
			return
		}
		d.units = append(d.units, unit{off, h.size})
		if ok {
			d.spansOf(len(d.units)-1, base)
		}
		off += h.size
	}
	sort.Slice(d.spans, func(i, j int) bool { return d.spans[i].lo < d.spans[j].lo })
}

func (d *dwarf) spansOf(n int, base uint64) {
	u := d.root(n, false)
	if u == nil {
		return
	}
	u.rangesOf(&u.rootDie, func(lo, hi uint64) bool {
		if lo >= hi || lo < base || hi-base > 1<<32-1 || !d.loads.Code(lo) {
			return true
		}
		d.spans = append(d.spans, span{uint32(lo - base), uint32(hi - base), uint32(n)})
		return len(d.spans) < maxRanges
	})
}

// maxOverlap bounds the earlier ranges to search for one that covers an address.
const maxOverlap = 16

// unitAt returns the unit of an address, -1 for none. Of several it is the one whose range begins
// last.
func (d *dwarf) unitAt(rel uint32) int {
	n := sort.Search(len(d.spans), func(i int) bool { return d.spans[i].lo > rel })
	for i := n - 1; i >= 0 && i >= n-maxOverlap; i-- {
		if rel < d.spans[i].hi {
			return int(d.spans[i].unit)
		}
	}
	return -1
}

// unitOf returns the unit that contains an offset of the section, -1 for none.
func (d *dwarf) unitOf(off uint64) int {
	n := sort.Search(len(d.units), func(i int) bool { return d.units[i].off > off }) - 1
	if n < 0 || off-d.units[n].off >= d.units[n].size {
		return -1
	}
	return n
}

// cursor reads consecutive bytes. Past their end it returns zeros and becomes bad.
type cursor struct {
	b   []byte
	off int
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b)-c.off {
		c.bad = true
		c.off = len(c.b)
		return nil
	}
	c.off += n
	return c.b[c.off-n : c.off]
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)) {
		n = uint64(len(c.b)) + 1
	}
	c.take(int(n))
}

func (c *cursor) u8() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u24() uint32 {
	if b := c.take(3); b != nil {
		return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// word reads an offset, which has eight bytes in 64-bit DWARF.
func (c *cursor) word(wide bool) uint64 {
	if wide {
		return c.u64()
	}
	return uint64(c.u32())
}

func (c *cursor) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
}

func (c *cursor) sleb() (v int64) {
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// text reads a zero-terminated text.
func (c *cursor) text() []byte {
	for i := c.off; i < len(c.b); i++ {
		if c.b[i] == 0 {
			s := c.b[c.off:i]
			c.off = i + 1
			return s
		}
	}
	c.bad, c.off = true, len(c.b)
	return nil
}
