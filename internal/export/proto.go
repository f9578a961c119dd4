package export

import (
	"encoding/binary"
	"math"
	"strings"
)

// proto is a Protocol Buffers message under construction.
type proto []byte

// number appends a numeric field; 0, the default, is omitted.
func (p *proto) number(field int, v uint64) {
	if v != 0 {
		p.exact(field, v)
	}
}

// exact appends a numeric field, even 0.
func (p *proto) exact(field int, v uint64) {
	*p = binary.AppendUvarint(binary.AppendUvarint(*p, uint64(field)<<3), v)
}

// fixed appends a 64-bit field.
func (p *proto) fixed(field int, v uint64) {
	*p = binary.LittleEndian.AppendUint64(binary.AppendUvarint(*p, uint64(field)<<3|1), v)
}

// float appends a double field.
func (p *proto) float(field int, v float64) { p.fixed(field, math.Float64bits(v)) }

// bytes appends a field with a text, a message, or packed numbers.
func (p *proto) bytes(field int, b []byte) {
	*p = binary.AppendUvarint(binary.AppendUvarint(*p, uint64(field)<<3|2), uint64(len(b)))
	*p = append(*p, b...)
}

// text appends a text field; invalid UTF-8 is replaced.
func (p *proto) text(field int, s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	*p = binary.AppendUvarint(binary.AppendUvarint(*p, uint64(field)<<3|2), uint64(len(s)))
	*p = append(*p, s...)
}
