package python

// A line table says which source line an instruction is of. Before 3.11 it has pairs of
// bytes (Objects/lnotab_notes.txt), from 3.11 on entries of PEP 657
// (Objects/locations.md).

// linePairs returns the line of the instruction at a byte offset, 0 if it is of none.
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

// Codes of an entry's first byte that say how its line is told.
const (
	entryOneLine0  = 10 // .. 12: by so many lines less 10
	entryNoColumns = 13
	entryLong      = 14
	entryNone      = 15
)

// lineEntries does the same for 3.11 and later.
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
		for len(table) > 0 && table[0]&0x80 == 0 { // the rest is of columns
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

// signed reads a number of six bits a byte, least first; its lowest bit is the sign.
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

// line returns the line that an instruction is of; before the first one that is the
// line where the function begins.
func (c *code) line(instr int32) int32 {
	switch {
	case instr < 0:
		return c.first
	case c.pairs:
		return linePairs(c.lines, c.first, instr)
	}
	return lineEntries(c.lines, c.first, instr)
}
