package unwind

// cursor reads values from the front of b. A read past the end returns zeros and sets bad.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)) {
		n = uint64(len(c.b)) + 1
	}
	c.take(int(n))
}

// uint reads an n-byte little-endian number, n up to 8.
func (c *cursor) uint(n int) (v uint64) {
	for i, b := range c.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

func (c *cursor) u8() uint8 {
	if len(c.b) == 0 {
		c.bad = true
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

// leb reads a LEB128 number, and returns its length in bits.
func (c *cursor) leb() (v uint64, bits uint, negative bool) {
	for {
		b := c.u8()
		if bits < 64 {
			v |= uint64(b&0x7f) << bits
		}
		bits += 7
		if b < 0x80 {
			return v, bits, b&0x40 != 0
		}
	}
}

func (c *cursor) uleb() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 { // most are
		return uint64(c.u8())
	}
	v, _, _ := c.leb()
	return v
}

func (c *cursor) sleb() int64 {
	v, bits, negative := c.leb()
	if negative && bits < 64 {
		v |= ^uint64(0) << bits
	}
	return int64(v)
}

// text reads a zero-terminated string.
func (c *cursor) text() string {
	for i, b := range c.b {
		if b == 0 {
			return string(c.take(i + 1)[:i])
		}
	}
	c.take(len(c.b) + 1)
	return ""
}

// Encodings of addresses (LSB, DWARF extensions).
const (
	encAbs   = 0x00
	encPCRel = 0x10
)

// pointer reads an encoded address. at is the address of the cursor's position.
func (c *cursor) pointer(enc uint8, at uint64) (uint64, bool) {
	var v uint64
	switch enc & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = c.uint(8)
	case 0x01:
		v = c.uleb()
	case 0x02:
		v = c.uint(2)
	case 0x03:
		v = c.uint(4)
	case 0x09:
		v = uint64(c.sleb())
	case 0x0a:
		v = uint64(int64(int16(c.uint(2))))
	case 0x0b:
		v = uint64(int64(int32(c.uint(4))))
	default:
		return 0, false
	}
	switch enc & 0xf0 {
	case encAbs:
	case encPCRel:
		v += at
	default:
		return 0, false
	}
	return v, !c.bad
}
