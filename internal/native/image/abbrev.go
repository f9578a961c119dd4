package image

// Forms of attributes (DWARF 5, 7.5.6, and GNU extensions).
const (
	formAddr       = 0x01
	formBlock2     = 0x03
	formBlock4     = 0x04
	formData2      = 0x05
	formData4      = 0x06
	formData8      = 0x07
	formString     = 0x08
	formBlock      = 0x09
	formBlock1     = 0x0a
	formData1      = 0x0b
	formFlag       = 0x0c
	formSdata      = 0x0d
	formStrp       = 0x0e
	formUdata      = 0x0f
	formRefAddr    = 0x10
	formRef1       = 0x11
	formRef2       = 0x12
	formRef4       = 0x13
	formRef8       = 0x14
	formRefUdata   = 0x15
	formIndirect   = 0x16
	formSecOffset  = 0x17
	formExprloc    = 0x18
	formPresent    = 0x19
	formStrx       = 0x1a
	formAddrx      = 0x1b
	formRefSup4    = 0x1c
	formStrpSup    = 0x1d
	formData16     = 0x1e
	formLineStrp   = 0x1f
	formRefSig8    = 0x20
	formImplicit   = 0x21
	formLoclistx   = 0x22
	formRnglistx   = 0x23
	formRefSup8    = 0x24
	formStrx1      = 0x25
	formStrx2      = 0x26
	formStrx3      = 0x27
	formStrx4      = 0x28
	formAddrx1     = 0x29
	formAddrx2     = 0x2a
	formAddrx3     = 0x2b
	formAddrx4     = 0x2c
	formGNUAddrIdx = 0x1f01
	formGNUStrIdx  = 0x1f02
	formGNURefAlt  = 0x1f20
	formGNUStrpAlt = 0x1f21
)

// The used attributes.
const (
	atSibling      = 0x01
	atName         = 0x03
	atStmtList     = 0x10
	atLowPC        = 0x11
	atHighPC       = 0x12
	atCompDir      = 0x1b
	atOrigin       = 0x31
	atSpec         = 0x47
	atRanges       = 0x55
	atCallFile     = 0x58
	atCallLine     = 0x59
	atLinkage      = 0x6e
	atStrBase      = 0x72
	atAddrBase     = 0x73
	atRnglistsBase = 0x74
	atMIPSLinkage  = 0x2007
	atGNUAddrBase  = 0x2133
)

// The used tags.
const (
	tagArray      = 0x01
	tagClass      = 0x02
	tagEnum       = 0x04
	tagStruct     = 0x13
	tagSubroutine = 0x15
	tagUnion      = 0x17
	tagInlined    = 0x1d
	tagSubprogram = 0x2e
)

// abbrev is the layout of entries of one kind.
type abbrev struct {
	tag      uint16
	children bool
	from, to uint32 // indices into attrs
}

type attr struct {
	at, form uint16
	implicit int64
}

// abbrevs are the abbreviations of a unit.
type abbrevs struct {
	list  []abbrev // by code, from 1 on
	other map[uint64]abbrev
	attrs []attr
}

func (a *abbrevs) bytes() int { return len(a.list)*12 + len(a.attrs)*16 + len(a.other)*40 }

func (a *abbrevs) lookup(code uint64) *abbrev {
	if code-1 < uint64(len(a.list)) {
		return &a.list[code-1]
	}
	if x, ok := a.other[code]; ok {
		return &x
	}
	return nil
}

// abbrevs reads the abbreviations at an offset: all of them, or up to the wanted code.
func (d *dwarf) abbrevs(off, wanted uint64) *abbrevs {
	size := 4096
	if wanted > 0 {
		size = 128 // the root's abbreviation is the first in nearly all files
	}
	for ; ; size *= 4 {
		b, err := d.sec[secAbbrev].Some(nil, off, size)
		if err != nil {
			return nil
		}
		c := cursor{b: b}
		a := parseAbbrevs(&c, wanted)
		if !c.bad {
			return a
		}
		if len(b) < size || len(a.attrs) >= maxAttrs || size >= 4<<20 {
			return nil
		}
	}
}

// parseAbbrevs parses up to the end of a table, or up to the wanted code.
func parseAbbrevs(c *cursor, wanted uint64) *abbrevs {
	a := &abbrevs{}
	for !c.bad {
		code := c.uleb()
		if code == 0 {
			break
		}
		x := abbrev{tag: uint16(c.uleb()), children: c.u8() != 0, from: uint32(len(a.attrs))}
		for !c.bad {
			at, form := c.uleb(), c.uleb()
			var implicit int64
			if form == formImplicit {
				implicit = c.sleb()
			}
			if at == 0 && form == 0 {
				break
			}
			if at > 1<<16-1 || form > 1<<16-1 || len(a.attrs) >= maxAttrs {
				c.bad = true
				break
			}
			a.attrs = append(a.attrs, attr{uint16(at), uint16(form), implicit})
		}
		x.to = uint32(len(a.attrs))
		switch {
		case code == uint64(len(a.list))+1:
			a.list = append(a.list, x)
		case code <= uint64(len(a.list)):
		default:
			if a.other == nil {
				a.other = map[uint64]abbrev{}
			}
			a.other[code] = x
		}
		if code == wanted {
			break
		}
	}
	return a
}
