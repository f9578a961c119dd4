package segment

import (
	"encoding/binary"
	"math"
)

// zig maps small signed numbers to small unsigned ones; zag is its inverse.
func zig(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }
func zag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// appendUvarint appends a varint. It is [binary.AppendUvarint] with fast paths for the two common
// lengths.
func appendUvarint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<14:
		return append(b, byte(v)|0x80, byte(v>>7))
	}
	return binary.AppendUvarint(b, v)
}

func appendString(b []byte, s string) []byte {
	return append(appendUvarint(b, uint64(len(s))), s...)
}

// appendTexts appends each of n texts once, for reader.strings, and returns their numbers.
func appendTexts(b []byte, n int, text func(i int) string) (_ []byte, numbers map[string]uint64) {
	numbers = map[string]uint64{}
	var all []string
	for i := range n {
		s := text(i)
		if _, known := numbers[s]; !known {
			numbers[s] = uint64(len(all))
			all = append(all, s)
		}
	}
	b = appendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendString(b, s)
	}
	return b, numbers
}

// reader reads values from untrusted bytes. When they run out it returns zeros and sets bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) uint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 { return zag(r.uint()) }

// small returns a value of at most 32 bits.
func (r *reader) small() uint32 {
	v := r.uint()
	if v > math.MaxUint32 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// tiny returns a value of at most 16 bits.
func (r *reader) tiny() uint16 {
	v := r.uint()
	if v > math.MaxUint16 {
		r.fail()
		return 0
	}
	return uint16(v)
}

// count returns a number of things that take at least one byte each. It bounds the number by the
// remaining bytes, so that callers allocate no more.
func (r *reader) count() int {
	v := r.uint()
	if v > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(r.count())) }

// strings reads a count and that many texts, at most most.
func (r *reader) strings(most int) []string {
	out := make([]string, 0, min(r.count(), most))
	for range cap(out) {
		out = append(out, r.string())
	}
	return out
}

func (r *reader) float() float64 {
	b := r.bytes(8)
	if r.bad {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}
