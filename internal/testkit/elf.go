package testkit

import (
	"bytes"
	"encoding/binary"
)

// ELF makes an ELF file with a header, two program headers, notes and two sections. The letter
// decides its build id.
func ELF(letter byte) []byte {
	le := binary.LittleEndian
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	le.PutUint16(h[16:], 3)   // ET_DYN
	le.PutUint64(h[32:], 64)  // program headers
	le.PutUint64(h[40:], 512) // section headers
	le.PutUint16(h[54:], 56)  // size of a program header
	le.PutUint16(h[56:], 2)   // number of program headers
	le.PutUint16(h[58:], 64)  // size of a section header
	le.PutUint16(h[60:], 2)   // number of section headers
	b := append(h, make([]byte, 4096-len(h))...)
	le.PutUint32(b[64:], 1) // PT_LOAD
	p := b[64+56:]
	le.PutUint32(p[0:], 4) // PT_NOTE
	le.PutUint64(p[8:], 256)
	n := note(1, "GNU\x00", []byte{1, 2, 3})                               // an ABI note before it
	n = append(n, note(3, "GNU\x00", bytes.Repeat([]byte{letter}, 20))...) // NT_GNU_BUILD_ID
	copy(b[256:], n)
	le.PutUint64(p[32:], uint64(len(n)))
	le.PutUint64(p[48:], 4)
	s := b[512+64:]
	le.PutUint32(s[4:], 11) // SHT_DYNSYM
	le.PutUint64(s[32:], 24)
	return b
}

func note(kind uint32, name string, desc []byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(name)))
	b = le.AppendUint32(b, uint32(len(desc)))
	b = append(le.AppendUint32(b, kind), name...)
	b = append(b, desc...)
	return append(b, make([]byte, -len(b)&3)...)
}
