package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// image is a small file with a hand-written .eh_frame.
type image struct {
	at   uint32 // address of the section
	cies [][]byte
	fdes []fdeText
}

// fdeText is one function.
type fdeText struct {
	cie        int
	start, end uint32
	program    []byte
}

// Augmentation "zR", addresses of 4 bytes relative to their own; CFA = rsp+8, ra at CFA-8.
var usual = []byte{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, cfaDef, 7, 8, cfaOffset | 16, 1}

var small = image{at: 0x5000, cies: [][]byte{usual}, fdes: []fdeText{
	{0, 0x1000, 0x1040, []byte{cfaAdvance | 1, cfaDefOff, 16, cfaOffset | 6, 2, cfaAdvance | 3, cfaDefReg, 6}},
	{0, 0x1040, 0x1080, nil},
}}

func (im image) section() []byte {
	var b []byte
	record := func(body []byte) int {
		at := len(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
		return at
	}
	var cies []int
	for _, c := range im.cies {
		cies = append(cies, record(append([]byte{0, 0, 0, 0}, c...)))
	}
	for _, f := range im.fdes {
		body := binary.LittleEndian.AppendUint32(nil, uint32(len(b)+4-cies[f.cie]))
		body = binary.LittleEndian.AppendUint32(body, f.start-(im.at+uint32(len(b))+8))
		body = binary.LittleEndian.AppendUint32(body, f.end-f.start)
		body = append(body, 0)
		record(append(body, f.program...))
	}
	return append(b, 0, 0, 0, 0)
}

// file wraps the section in ELF headers: one segment, no sections, .eh_frame_hdr.
func (im image) file() []byte {
	const head = 64 + 2*56 + 12
	le := binary.LittleEndian
	b := make([]byte, head)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 3)
	le.PutUint16(b[18:], 62)
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 2)
	s := im.section()
	prog := func(at int, kind, flags uint32, off, addr, size uint64) {
		le.PutUint32(b[at:], kind)
		le.PutUint32(b[at+4:], flags)
		le.PutUint64(b[at+8:], off)
		le.PutUint64(b[at+16:], addr)
		le.PutUint64(b[at+24:], addr)
		le.PutUint64(b[at+32:], size)
		le.PutUint64(b[at+40:], size)
	}
	base := uint64(im.at) - head
	prog(64, 1, 5, 0, base, uint64(head+len(s)))
	prog(64+56, 0x6474e550, 4, head-12, base+head-12, 12)
	copy(b[head-12:], []byte{1, 0x1b, 0xff, 0xff})
	le.PutUint32(b[head-8:], im.at-(uint32(base)+head-8))
	return append(b, s...)
}

func build(t *testing.T, im image, m machine) (*Table, *Rules) {
	t.Helper()
	rules := NewRules()
	s := im.section()
	table, err := Build(bytes.NewReader(s), &Image{m: m, frames: section{addr: uint64(im.at), size: uint64(len(s))}}, rules)
	if err != nil {
		t.Fatal(err)
	}
	checkTable(t, table, rules)
	return table, rules
}

// at is the rule from an address on.
type at struct {
	pc   uint64
	want string
}

// The table has the rule of each address. Unsupported instructions give KindNone.
func TestTable(t *testing.T) {
	signal := slices.Concat([]byte{1, 'z', 'R', 'S', 0}, usual[4:])
	arm := []byte{1, 'z', 'R', 0, 4, 0x78, 30, 1, 0x1b, cfaDef, 31, 0}
	one := func(program ...byte) image {
		return image{at: 0x5000, cies: [][]byte{usual}, fdes: []fdeText{{0, 0x1000, 0x1100, program}}}
	}
	for _, c := range []struct {
		name string
		im   image
		m    machine
		want []at
	}{
		{"a frame", small, x86, []at{{0xfff, "none"}, {0x1000, "sp+8 ra-8"}, {0x1001, "sp+16 fp-16 ra-8"}, {0x1003, "sp+16 fp-16 ra-8"},
			{0x1004, "fp+16 fp-16 ra-8"}, {0x103f, "fp+16 fp-16 ra-8"}, {0x1040, "sp+8 ra-8"}, {0x107f, "sp+8 ra-8"}, {0x1080, "none"}}},
		{"blocks without rows", image{at: 0x5000, cies: [][]byte{usual}, fdes: []fdeText{
			{0, 0x1234, 0x9876, []byte{cfaAdvance4, 0, 0x70, 0, 0, cfaDefOff, 32}}}}, x86,
			[]at{{0x1233, "none"}, {0x1234, "sp+8 ra-8"}, {0x5000, "sp+8 ra-8"}, {0x8233, "sp+8 ra-8"}, {0x8234, "sp+32 ra-8"}, {0x9875, "sp+32 ra-8"}, {0x9876, "none"}}},
		{"functions in any order", image{at: 0x5000, cies: [][]byte{usual}, fdes: []fdeText{
			{0, 0x3000, 0x3010, []byte{cfaDefOff, 24}}, {0, 0x1000, 0x1010, nil}, {0, 0x2000, 0x2010, []byte{cfaDefOff, 16}}}}, x86,
			[]at{{0x1000, "sp+8 ra-8"}, {0x1800, "none"}, {0x2000, "sp+16 ra-8"}, {0x3000, "sp+24 ra-8"}}},
		{"one inside another", image{at: 0x5000, cies: [][]byte{usual}, fdes: []fdeText{{0, 0x1000, 0x1100, nil}, {0, 0x1080, 0x1090, []byte{cfaDefOff, 16}}}}, x86,
			[]at{{0x1088, "sp+8 ra-8"}}},
		{"remember and recall", one(cfaDefOff, 48, cfaRemember, cfaAdvance|16, cfaDefOff, 8, cfaAdvance|1, cfaRecall), x86,
			[]at{{0x100f, "sp+48 ra-8"}, {0x1010, "sp+8 ra-8"}, {0x1011, "sp+48 ra-8"}}},
		{"recall of nothing", one(cfaAdvance|16, cfaRecall, cfaAdvance|16, cfaDefOff, 16), x86, []at{{0x1000, "sp+8 ra-8"}, {0x1010, "none"}, {0x1080, "none"}}},
		{"an instruction that is not known", one(cfaAdvance|16, 0x3f), x86, []at{{0x1000, "sp+8 ra-8"}, {0x1010, "none"}}},
		{"where a thread begins", one(cfaUndefined, 16), x86, []at{{0x1000, "end"}}},
		{"another register", one(cfaDef, 10, 0), x86, []at{{0x1000, "none"}}},
		{"an aligned frame", one(cfaExpr, 6, 2, opBreg+6, 0, cfaDefExpr, 3, opBreg+6, 0x70, opDeref), x86, []at{{0x1000, "*(fp-16) ra-8"}}},
		{"an expression that is not known", one(cfaDefExpr, 2, opBreg+3, 0), x86, []at{{0x1000, "none"}}},
		{"jumps to other libraries", one(slices.Concat([]byte{cfaDefExpr, byte(len(plt))}, plt[:pltPush], []byte{opLit + 11}, plt[pltPush+1:])...), x86,
			[]at{{0x1000, "plt+8 ra-8"}}},
		{"a frame pointer in another register", one(cfaRegister, 6, 3), x86, []at{{0x1000, "none"}}},
		{"where a signal handler returns", image{at: 0x5000, cies: [][]byte{signal}, fdes: []fdeText{{0, 0x1000, 0x1009, nil}}}, x86, []at{{0x1000, "signal"}}},
		{"a link register", image{at: 0x5000, cies: [][]byte{arm}, fdes: []fdeText{
			{0, 0x1000, 0x1100, []byte{cfaWindowSave, cfaAdvance | 1, cfaDefOff, 32, cfaOffset | 29, 4, cfaOffset | 30, 3}}}}, arm64,
			[]at{{0x1000, "sp+0"}, {0x1004, "sp+32 fp-32 ra-24"}}},
		{"a call that leaves nothing on the stack", one(cfaSame, 16), x86, []at{{0x1000, "none"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, rules := build(t, c.im, c.m)
			for _, a := range c.want {
				if got := table.Find(a.pc, rules).String(); got != a.want {
					t.Errorf("%#x: %s, want %s", a.pc, got, a.want)
				}
			}
		})
	}
}

// Sections that no linker wrote are refused, or give the rules of their valid part.
func TestHostile(t *testing.T) {
	whole := small.section()
	many := image{at: 0x5000}
	for range 3 * ciesMax { // each used in turn by functions of no size
		many.cies = append(many.cies, append(slices.Clone(usual), make([]byte, 4000)...))
	}
	for i := range 20 * ciesMax {
		many.fdes = append(many.fdes, fdeText{i % len(many.cies), 0x100000 + uint32(i)*16, 0x100008 + uint32(i)*16, nil})
	}
	far := small
	far.fdes = append(slices.Clone(far.fdes), fdeText{0, 0x70000000, 0x70000010, nil})
	apart := small
	apart.fdes = append([]fdeText{{0, 0xf0000000, 0xf0000010, nil}}, apart.fdes...)
	few := small
	few.fdes = append(slices.Clone(few.fdes), fdeText{0, 0x4000000, 0x4000010, nil})
	for _, c := range []struct {
		name    string
		section []byte
		err     error
	}{
		{"empty", nil, ErrNoFrames},
		{"an end alone", []byte{0, 0, 0, 0}, ErrNoFrames},
		{"cut", whole[:len(whole)-20], nil},
		{"a length beyond the end", []byte{0xff, 0xff, 0, 0, 0, 0, 0, 0}, ErrNoFrames},
		{"a CIE that is not there", []byte{8, 0, 0, 0, 0x80, 0, 0, 0, 1, 2, 3, 4}, ErrNoFrames},
		{"a CIE that is itself", []byte{8, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4}, ErrNoFrames},
		{"functions far apart", far.section(), errLarge},
		{"functions more than 32 bits apart", apart.section(), errLarge},
		{"few functions far apart", few.section(), errLarge},
		{"much work", many.section(), errHostile},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Build(bytes.NewReader(c.section), &Image{m: x86, frames: section{addr: 0x5000, size: uint64(len(c.section))}}, NewRules())
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%v, want %v", err, c.err)
			}
		})
	}
}

// counted counts the reads of a section.
type counted struct {
	*bytes.Reader
	reads int
}

func (c *counted) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	return c.Reader.ReadAt(b, off)
}

// The work of a build grows with the size of the section only: no allocations for each function, and
// few reads where functions of two source files alternate.
func TestBuildIsCheap(t *testing.T) {
	const each = 4096
	im := image{at: 0x1000000, cies: [][]byte{usual}}
	program := []byte{cfaAdvance | 1, cfaDefOff, 16, cfaOffset | 6, 2, cfaRemember, cfaAdvance | 1, cfaDefOff, 8, cfaAdvance | 1, cfaRecall}
	for i := range uint32(2 * each) {
		at := 0x1000 + 32*(2*(i%each)+i/each)
		im.fdes = append(im.fdes, fdeText{0, at, at + 32, program})
	}
	s := im.section()
	r := &counted{Reader: bytes.NewReader(s)}
	frames := &Image{m: x86, frames: section{addr: uint64(im.at), size: uint64(len(s))}}
	allocs := testing.AllocsPerRun(1, func() {
		r.reads = 0
		if table, err := Build(r, frames, NewRules()); err != nil || table.Rows != 8*each+1 {
			t.Fatal(err)
		}
	})
	if most := 4 * len(s) >> 14; r.reads > most || allocs > 100 {
		t.Errorf("%d reads and %v allocations for %d functions, want at most %d and 100", r.reads, allocs, 2*each, most)
	}
}

// Rules beyond a limit become KindNone: of all files, and of those of one owner other than root.
func TestRulesFull(t *testing.T) {
	rules := NewRules()
	cfa := int32(0)
	add := func(owner uint32, want int) {
		t.Helper()
		before := rules.Len()
		for range MaxRules {
			cfa++
			id, ok := rules.id(Rule{Kind: KindSP, CFA: cfa}, owner)
			if ok != (rules.Len()-1 == int(id)) || !ok && id != 0 {
				t.Fatalf("rule %d of user %d has number %d", cfa, owner, id)
			}
		}
		if got := rules.Len() - before; got != want {
			t.Errorf("user %d added %d rules, want %d", owner, got, want)
		}
	}
	add(1, MaxRules/4)
	add(2, MaxRules/4)
	add(0, MaxRules/2-2)
	add(3, 0)
	if rules.Len() != MaxRules {
		t.Errorf("%d rules", rules.Len())
	}
	s := small.section()
	table, err := Build(bytes.NewReader(s), &Image{m: x86, frames: section{addr: uint64(small.at), size: uint64(len(s))}}, rules)
	if err != nil || table.Lost == 0 {
		t.Errorf("no function is lost: %v", err)
	}
}

// A file without section headers is read through .eh_frame_hdr.
func TestOpenStripped(t *testing.T) {
	b := small.file()
	im, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	rules := NewRules()
	table, err := Build(bytes.NewReader(b), im, rules)
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Find(0x1004, rules).String(); got != "fp+16 fp-16 ra-8" {
		t.Errorf("got %s", got)
	}
}
