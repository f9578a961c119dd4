package python

// A line table maps instructions to source lines. Before 3.11 it has pairs of bytes
// (Objects/lnotab_notes.txt), from 3.11 on entries of PEP 657 (Objects/locations.md).

// linePairs returns the line of the instruction at a byte offset, 0 if it has none.
func linePairs(table []byte, first, instr int32) int32 {
	line, end := first, int32(0)
	for ; len(table) >= 2; table = table[2:] {
		delta := int32(int8(table[1]))
		end += int32(table[0])
		none := delta == -128
		if !none {
			line += delta
		}
		if instr < end {
			if none {
				return 0
			}
			return line
		}
	}
	return 0
}

// Codes in the first byte of an entry: how it encodes its line.
const (
	entryOneLine0  = 10 // .. 12: code-10 lines further
	entryNoColumns = 13
	entryLong      = 14
	entryNone      = 15
)

// lineEntries is linePairs for 3.11 and later.
func lineEntries(table []byte, first, instr int32) int32 {
	line, end := first, int32(0)
	for len(table) > 0 {
		code := table[0] >> 3 & 15
		end += (int32(table[0]&7) + 1) * 2
		table = table[1:]
		switch code {
		case entryNoColumns, entryLong:
			line += signed(table)
		case entryOneLine0, entryOneLine0 + 1, entryOneLine0 + 2:
			line += int32(code) - entryOneLine0
		}
		for len(table) > 0 && table[0]&0x80 == 0 { // the rest encodes columns
			table = table[1:]
		}
		if instr < end {
			if code == entryNone {
				return 0
			}
			return line
		}
	}
	return 0
}

// signed decodes a number of six bits per byte, least significant first. Its lowest bit is the
// sign.
func signed(b []byte) int32 {
	var v uint32
	for i := 0; i < len(b) && i < 6; i++ {
		v |= uint32(b[i]&63) << (6 * i)
		if b[i]&64 == 0 {
			break
		}
	}
	if v&1 != 0 {
		return -int32(v >> 1)
	}
	return int32(v >> 1)
}

// line returns the line of an instruction. Before the first instruction that is the function's
// first line.
func (c *code) line(instr int32) int32 {
	switch {
	case instr < 0:
		return c.first
	case c.pairs:
		return linePairs(c.lines, c.first, instr)
	}
	return lineEntries(c.lines, c.first, instr)
}
