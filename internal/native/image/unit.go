package image

import "ingero/internal/elffile"

// loaded is a unit with its abbreviations.
type loaded struct {
	d      *dwarf
	off    uint64
	header header
	abbrev *abbrevs

	low       uint64 // start of its addresses, if given
	line      uint64 // offset of its line program
	hasLine   bool
	dir       string // directory of the compilation
	strBase   uint64
	addrBase  uint64
	rngBase   uint64
	rootDie   die
	functions []function // by address
	listed    bool
	cost      int
}

// value is the value of an attribute.
type value struct {
	form uint16
	u    uint64
	text []byte // formString
}

// die is an entry with its used attributes.
type die struct {
	tag      uint16
	children bool
	next     uint64 // offset of the next entry
	sibling  uint64 // 0: not given

	name, linkage     value
	low, high, ranges value
	origin, spec      value
	callFile          uint64
	callLine          uint64
	stmt, dir         value
}

// dieSize suffices for most entries.
const dieSize = 256

// root returns a unit without its functions. Its first entry alone does not need all abbreviations.
func (d *dwarf) root(n int, all bool) *loaded {
	h, ok := d.header(d.units[n].off)
	if !ok || h.kind == utType || h.kind == utSplitType {
		return nil
	}
	u := &loaded{d: d, off: d.units[n].off, header: h}
	wanted := h.code
	if all {
		wanted = 0
	}
	if u.abbrev = d.abbrevs(h.abbrev, wanted); u.abbrev == nil {
		return nil
	}
	u.strBase, u.addrBase = 8, 8 // after the header of the table, in DWARF 5
	if h.wide {
		u.strBase, u.addrBase = 16, 16
	}
	if h.version < 5 {
		u.strBase, u.addrBase = 0, 0
	}
	if !u.die(u.off+uint64(h.entries), &u.rootDie) {
		return nil
	}
	// The bases stand among the attributes that need them.
	if lo := u.rootDie.low; lo.form != 0 {
		u.low, _ = u.address(lo)
	}
	if s := u.rootDie.stmt; s.form != 0 {
		u.line, u.hasLine = s.u, true
	}
	u.dir = u.string(u.rootDie.dir)
	u.rootDie.name, u.rootDie.dir = value{}, value{}
	u.cost = u.abbrev.bytes() + len(u.dir) + 512
	return u
}

// maxOpen bounds the cached units.
const maxOpen = 256

// unit returns a unit, and caches it.
func (d *dwarf) unit(n int) *loaded {
	if u, ok := d.open[n]; ok {
		return u
	}
	if len(d.open) >= maxOpen {
		clear(d.open)
		d.openBytes = 0
	}
	u := d.root(n, true)
	d.open[n] = u
	if u != nil {
		d.openBytes += u.cost
	}
	return u
}

// die reads the entry at an offset of the section. It returns false at the end of a list of
// children, or for an unreadable entry, with next 0.
func (u *loaded) die(off uint64, x *die) bool {
	var small [dieSize]byte
	end := u.off + u.header.size
	for size := dieSize; off >= u.off && off < end; size *= 8 {
		n := int(min(uint64(size), end-off))
		b, err := u.d.sec[secInfo].Some(small[:], off, n)
		if err != nil {
			break
		}
		c := cursor{b: b}
		ok := u.parse(&c, x)
		if !c.bad {
			x.next = off + uint64(c.off)
			return ok
		}
		if n < size || size >= 1<<20 {
			break
		}
	}
	*x = die{}
	return false
}

// parse parses an entry. It returns false at the end of a list of children.
func (u *loaded) parse(c *cursor, x *die) bool {
	*x = die{}
	code := c.uleb()
	if code == 0 {
		return false
	}
	a := u.abbrev.lookup(code)
	if a == nil {
		c.bad = true
		return false
	}
	x.tag, x.children = a.tag, a.children
	for _, at := range u.abbrev.attrs[a.from:a.to] {
		if c.bad {
			return false
		}
		v := u.value(c, at.form, at.implicit)
		switch at.at {
		case atSibling:
			if r, local := u.local(v); local {
				x.sibling = r
			}
		case atName:
			x.name = v
		case atLinkage, atMIPSLinkage:
			x.linkage = v
		case atLowPC:
			x.low = v
		case atHighPC:
			x.high = v
		case atRanges:
			x.ranges = v
		case atOrigin:
			x.origin = v
		case atSpec:
			x.spec = v
		case atCallFile:
			x.callFile = v.u
		case atCallLine:
			x.callLine = v.u
		case atStmtList:
			x.stmt = v
		case atCompDir:
			x.dir = v
		case atStrBase:
			u.strBase = v.u
		case atAddrBase, atGNUAddrBase:
			u.addrBase = v.u
		case atRnglistsBase:
			u.rngBase = v.u
		}
	}
	return !c.bad
}

// value reads or skips the value of an attribute.
func (u *loaded) value(c *cursor, form uint16, implicit int64) value {
	v := value{form: form}
	for range 4 {
		if v.form != formIndirect {
			break
		}
		v.form = uint16(c.uleb())
	}
	switch v.form {
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		v.u = uint64(c.u8())
	case formData2, formRef2, formStrx2, formAddrx2:
		v.u = uint64(c.u16())
	case formStrx3, formAddrx3:
		v.u = uint64(c.u24())
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		v.u = uint64(c.u32())
	case formAddr, formData8, formRef8, formRefSig8, formRefSup8:
		v.u = c.u64()
	case formData16:
		c.skip(16)
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIdx, formGNUStrIdx:
		v.u = c.uleb()
	case formSdata:
		v.u = uint64(c.sleb())
	case formImplicit:
		v.u = uint64(implicit)
		u.spend(c)
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		v.u = c.word(u.header.wide)
	case formRefAddr:
		v.u = c.word(u.header.wide || u.header.version == 2)
	case formString:
		v.text = c.text()
	case formBlock1:
		c.skip(uint64(c.u8()))
	case formBlock2:
		c.skip(uint64(c.u16()))
	case formBlock4:
		c.skip(uint64(c.u32()))
	case formBlock, formExprloc:
		c.skip(c.uleb())
	case formPresent:
		v.u = 1
		u.spend(c)
	default:
		c.bad = true
	}
	return v
}

// spend deducts a flag attribute that takes no space (DW_FORM_flag_present, DW_FORM_implicit_const) from the budget: there can be many for each byte read.
func (u *loaded) spend(c *cursor) {
	u.d.work.left--
	c.bad = c.bad || u.d.work.left < 0
}

// local returns the section offset of a reference within the unit.
func (u *loaded) local(v value) (uint64, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return u.off + v.u, v.u < u.header.size
	}
	return 0, false
}

// follow returns the entry that a reference leads to, and its unit.
func (u *loaded) follow(v value, x *die) (*loaded, bool) {
	at, local := u.local(v)
	d := u.d
	switch v.form {
	case formRefAddr:
		at = v.u
	case formGNURefAlt, formRefSup4, formRefSup8:
		if d, at = u.d.alt, v.u; d == nil {
			return nil, false
		}
	default:
		if !local {
			return nil, false
		}
		return u, u.die(at, x)
	}
	n := d.unitOf(at)
	if n < 0 {
		return nil, false
	}
	o := d.unit(n)
	return o, o != nil && o.die(at, x)
}

// string returns a value's text.
func (u *loaded) string(v value) string {
	switch v.form {
	case formString:
		if len(v.text) <= elffile.MaxName {
			return string(v.text)
		}
	case formStrp:
		return u.d.sec[secStr].Text(v.u)
	case formLineStrp:
		return u.d.sec[secLineStr].Text(v.u)
	case formStrpSup, formGNUStrpAlt:
		if u.d.alt != nil {
			return u.d.alt.sec[secStr].Text(v.u)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIdx:
		width := uint64(4)
		if u.header.wide {
			width = 8
		}
		if off, ok := u.d.sec[secStrOffsets].number(u.strBase, v.u, width); ok {
			return u.d.sec[secStr].Text(off)
		}
	}
	return ""
}

// address returns a value's address.
func (u *loaded) address(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.u, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIdx:
		return u.d.sec[secAddr].number(u.addrBase, v.u, 8)
	}
	return 0, false
}

// number reads entry i of a table of numbers of 4 or 8 bytes.
func (s section) number(base, i, width uint64) (uint64, bool) {
	var b [8]byte
	if i > s.Size || base > s.Size || s.Read(b[:width], base+i*width) != nil {
		return 0, false
	}
	return le.Uint64(b[:]), true
}
