package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// Abbreviations of the entries in debug information that the tests make.
const (
	unitEntry = 1 + iota
	typedefEntry
	structEntry
	memberEntry
	pointerEntry
	nestedEntry
	constantEntry
)

var abbreviated = []byte{
	unitEntry, 0x11, 1, 0, 0, // DW_TAG_compile_unit
	typedefEntry, 0x16, 0, 0x03, 0x08, 0x49, 0x13, 0, 0, // DW_AT_name (string), DW_AT_type (ref4)
	structEntry, 0x13, 1, 0x03, 0x08, 0x0b, 0x05, 0, 0, // DW_AT_name, DW_AT_byte_size (data2)
	memberEntry, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x05, 0, 0, // DW_AT_name, DW_AT_type, DW_AT_data_member_location
	pointerEntry, 0x0f, 0, 0x49, 0x13, 0, 0, // DW_AT_type
	nestedEntry, 0x0b, 1, 0, 0, // DW_TAG_lexical_block
	constantEntry, 0x28, 0, 0x1c, 0x21, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f, 0, 0, // DW_AT_const_value: -1 << 63
	0,
}

// debug is a unit of debug information.
type debug struct{ info []byte }

func newDebug() *debug {
	return &debug{info: []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, unitEntry}}
}

// at returns the offset of the next entry.
func (d *debug) at() uint32 { return uint32(len(d.info)) }

func (d *debug) typedef(name string, of uint32) *debug {
	d.info = append(append(append(d.info, typedefEntry), name...), 0)
	d.info = binary.LittleEndian.AppendUint32(d.info, of)
	return d
}

func (d *debug) structure(name string, members ...func()) *debug {
	d.info = append(append(append(d.info, structEntry), name...), 0, 64, 0)
	for _, m := range members {
		m()
	}
	d.info = append(d.info, 0)
	return d
}

func (d *debug) member(name string, of uint32, offset uint16) func() {
	return func() {
		d.info = append(append(append(d.info, memberEntry), name...), 0)
		d.info = binary.LittleEndian.AppendUint32(d.info, of)
		d.info = binary.LittleEndian.AppendUint16(d.info, offset)
	}
}

// sections ends the unit.
func (d *debug) sections() map[string][]byte {
	info := append(d.info, 0)
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	return map[string][]byte{"abbrev": abbreviated, "info": info}
}

// aliases returns debug information in which n typedefs lie between a member and its structure.
func aliases(n int) *debug {
	d := newDebug()
	inner := d.at()
	d.structure("inner", d.member("head", 0, 5))
	for range n {
		next := d.at()
		d.typedef("alias", inner)
		inner = next
	}
	return d.structure("_is", d.member("threads", inner, 40))
}

// Members of nested structures are found through typedefs.
func TestNestedStructures(t *testing.T) {
	for name, tt := range map[string]struct {
		of   *debug
		path []string
		want uint16
		ok   bool
	}{
		"of itself":          {aliases(0), []string{"threads"}, 40, true},
		"of another":         {aliases(0), []string{"threads", "head"}, 45, true},
		"of a typedef":       {aliases(1), []string{"threads", "head"}, 45, true},
		"of some typedefs":   {aliases(maxAliases), []string{"threads", "head"}, 45, true},
		"of too many":        {aliases(maxAliases + 1), []string{"threads", "head"}, 0, false},
		"none":               {aliases(0), []string{"threads", "tail"}, 0, false},
		"of no structure":    {aliases(0), []string{"threads", "head", "next"}, 0, false},
		"typedef of itself":  {selfTypedef("_is"), []string{"threads"}, 0, false},
		"member of a cycle":  {cycle(), []string{"threads", "head"}, 0, false},
		"many pointers deep": {pointers(1 << 22), []string{"threads"}, 0, false},
		"many blocks deep":   {blocks(maxNested), []string{"threads", "head"}, 45, true},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := parseDebug(tt.of.sections())
			if err != nil {
				t.Fatal(err)
			}
			d, err := findStructures(data)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := d.offset("interp", tt.path...)
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %d, %v, want %d, %v", got, ok, tt.want, tt.ok)
			}
			if _, err := d.offsets(); !errors.Is(err, errNoSource) {
				t.Errorf("got %v of a part of the structures, want %v", err, errNoSource)
			}
		})
	}
}

func selfTypedef(name string) *debug {
	d := newDebug()
	return d.typedef(name, d.at())
}

// cycle returns debug information with a member whose type is a typedef of itself.
func cycle() *debug {
	d := selfTypedef("a")
	return d.structure("_is", d.member("threads", 12, 40))
}

// pointers returns debug information with a typedef of n pointers to each other.
func pointers(n int) *debug {
	d := newDebug()
	d.typedef("_is", d.at()+9) // the entry behind it
	for range n {
		d.info = append(d.info, pointerEntry)
		d.info = binary.LittleEndian.AppendUint32(d.info, d.at()+4)
	}
	d.structure("end")
	return d
}

// blocks returns debug information with n nested blocks before the structures.
func blocks(n int) *debug {
	d := newDebug()
	d.info = append(d.info, bytes.Repeat([]byte{nestedEntry}, n)...)
	d.info = append(d.info, make([]byte, n)...)
	inner := d.at()
	d.structure("inner", d.member("head", 0, 5))
	return d.structure("_is", d.member("threads", inner, 40))
}

// Debug information whose parts overlap, or are larger than any compiler makes them, is refused.
func TestDebugBounds(t *testing.T) {
	valid := aliases(1).sections()
	unit := valid["info"]
	values := slices.Concat([]byte{unitEntry, 0x11, 1}, bytes.Repeat([]byte{0x03, 0x08}, maxValues+1), []byte{0, 0, 0})
	for name, tt := range map[string]struct {
		section string
		is      []byte
	}{
		"a huge name":                    {"str", append(bytes.Repeat([]byte("x"), maxString+1), 0)},
		"a huge name, other section":     {"line_str", append(bytes.Repeat([]byte("x"), maxString+1), 0)},
		"a name without end":             {"str", []byte("name")},
		"an entry of many values":        {"abbrev", values},
		"abbreviations without end":      {"abbrev", abbreviated[:len(abbreviated)-1]},
		"abbreviations within others":    {"info", slices.Concat(unit[:6], []byte{5}, unit[7:])},
		"abbreviations behind the end":   {"info", slices.Concat(unit[:6], []byte{0xff}, unit[7:])},
		"many units":                     {"info", bytes.Repeat(unit, maxUnits+1)},
		"a unit of 64-bit DWARF":         {"info", slices.Concat([]byte{0xff, 0xff, 0xff, 0xff}, unit)},
		"a unit of the other byte order": {"info", slices.Concat(unit[:4], []byte{0, 4}, unit[6:])},
		"a truncated unit":               {"info", unit[:len(unit)-1]},
	} {
		t.Run(name, func(t *testing.T) {
			sections := aliases(1).sections()
			sections[tt.section] = tt.is
			if _, err := parseDebug(sections); !errors.Is(err, errDebugBounds) {
				t.Errorf("got %v, want %v", err, errDebugBounds)
			}
		})
	}
}

// The work for all entries together is bounded.
func TestDebugWork(t *testing.T) {
	data, err := parseDebug(aliases(1).sections())
	if err != nil {
		t.Fatal(err)
	}
	r := data.Reader()
	d := &described{data: data, left: 10}
	for n := 0; ; n++ {
		e, err := d.next(r)
		if errors.Is(err, errDebugBounds) {
			break
		}
		if e == nil || err != nil || n > 10 {
			t.Fatalf("entry %d: %v, %v, want %v", n, e, err, errDebugBounds)
		}
	}
}

// Hostile debug information is refused, or takes bounded work.
func FuzzDWARF(f *testing.F) {
	for _, d := range []*debug{aliases(0), aliases(2), selfTypedef("PyCodeObject"), cycle(), pointers(4), blocks(4)} {
		s := d.sections()
		f.Add(s["abbrev"], s["info"], []byte("name\x00"))
	}
	f.Add([]byte(cutAbbrev), []byte(cutInfo), []byte("name\x00"))
	f.Fuzz(func(t *testing.T, abbrev, info, str []byte) {
		data, err := parseDebug(map[string][]byte{"abbrev": abbrev, "info": info, "str": str})
		if err != nil {
			return
		}
		if d, err := findStructures(data); err == nil {
			_, _ = d.offsets()
		}
	})
}

// A unit that ends in the middle of an entry.
const (
	cutAbbrev = "\x01\x11\x01\x00\x00\x02\x16\x00\x03\bI\x13\x00\x00\x03\x13\x01\x03\b\v\x05\x00\x00\x04\r\x00\x03\bI\x138\x05\x00\x00\x05\x0f\x00I\x13\x00\x00\x06\v\x01\x00\x00\a(\x00\x1c!" +
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x00\x00\x00"
	cutInfo = "6\x00\x00\x00\x04\x00\x00\x00\x00\x00\b\x01\x03inner\x00@\x00\x04head\x00\x00\x00\x00\x00\x05\x00\x00\x03_is\x00@\x00\x04threads\x00\f\xce\xce\xce\xce\xce\xce\xce"
)

// Reading ends soon where debug/dwarf would return ends of lists without end, and in very deep lists.
func TestDebugInfoThatIsCut(t *testing.T) {
	for name, sections := range map[string]map[string][]byte{
		"cut":       {"abbrev": []byte(cutAbbrev), "info": []byte(cutInfo), "str": []byte("name\x00")},
		"very deep": blocks(1 << 20).sections(),
	} {
		data, err := parseDebug(sections)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := findStructures(data); !errors.Is(err, errDebugBounds) {
			t.Errorf("%s: %v, want %v", name, err, errDebugBounds)
		}
	}
}
