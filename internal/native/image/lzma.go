package image

// chunk decodes until out has end bytes.
func (d *lzma) chunk(end int) {
	d.rng, d.code = 1<<32-1, uint32(d.in[1])<<24|uint32(d.in[2])<<16|uint32(d.in[3])<<8|uint32(d.in[4])
	d.in = d.in[5:]
	for len(d.out) < end && !d.bad {
		pos := uint(len(d.out)-d.dict) & (1<<d.pb - 1)
		if d.bit(&d.isMatch[d.state<<4+pos]) == 0 {
			d.literal()
			continue
		}
		var n int
		if d.bit(&d.isRep[d.state]) == 0 {
			d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
			n = d.length(&d.lens, pos)
			d.rep[0] = d.distance(n)
			d.state = after(d.state, 7)
		} else if n = d.repeat(pos); n == 0 {
			continue // one byte
		}
		d.copy(n, end)
	}
}

// after returns the state after a match. kind is the state after a match that follows a literal.
func after(state, kind uint) uint {
	if state < 7 {
		return kind
	}
	return min(kind+3, 11)
}

// repeat selects one of the last distances, and returns the length of the match; 0 for a single
// byte, which it copies.
func (d *lzma) repeat(pos uint) int {
	if d.bit(&d.rep0[d.state]) == 0 {
		if d.bit(&d.rep0Long[d.state<<4+pos]) == 0 {
			d.state = after(d.state, 9)
			d.copy(1, len(d.out)+1)
			return 0
		}
	} else {
		i := 1
		if d.bit(&d.rep1[d.state]) != 0 {
			i = 2 + int(d.bit(&d.rep2[d.state]))
		}
		at := d.rep[i]
		copy(d.rep[1:i+1], d.rep[:i])
		d.rep[0] = at
	}
	n := d.length(&d.repLens, pos)
	d.state = after(d.state, 8)
	return n
}

func (d *lzma) copy(n, end int) {
	back := int(d.rep[0]) + 1
	if back > len(d.out)-d.dict || len(d.out)+n > end {
		d.bad = true
		return
	}
	for range n {
		d.out = append(d.out, d.out[len(d.out)-back])
	}
}

func (d *lzma) literal() {
	prev := byte(0)
	if len(d.out) > d.dict {
		prev = d.out[len(d.out)-1]
	}
	at := uint(len(d.out)-d.dict)&(1<<d.lp-1)<<d.lc + uint(prev)>>(8-d.lc)
	probs := d.literals[0x300*at : 0x300*at+0x300]
	sym := uint(1)
	if d.state >= 7 {
		back := int(d.rep[0]) + 1
		if back > len(d.out)-d.dict {
			d.bad = true
			return
		}
		for m := uint(d.out[len(d.out)-back]); sym < 0x100; {
			m <<= 1
			is := m >> 8 & 1
			bit := uint(d.bit(&probs[(1+is)<<8+sym]))
			if sym = sym<<1 | bit; is != bit {
				break
			}
		}
	}
	for sym < 0x100 {
		sym = sym<<1 | uint(d.bit(&probs[sym]))
	}
	d.out = append(d.out, byte(sym))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

func (d *lzma) length(l *lengths, pos uint) int {
	switch {
	case d.bit(&l.choice[0]) == 0:
		return 2 + int(d.tree(l.low[pos][:], 3))
	case d.bit(&l.choice[1]) == 0:
		return 10 + int(d.tree(l.mid[pos][:], 3))
	}
	return 18 + int(d.tree(l.high[:], 8))
}

// distance decodes the distance of a match of n bytes, less one.
func (d *lzma) distance(n int) uint32 {
	slot := d.tree(d.slots[min(n-2, 3)][:], 6)
	if slot < 4 {
		return slot
	}
	bits := slot>>1 - 1
	at := (2 | slot&1) << bits
	if slot < 14 {
		return at + d.reverse(d.special[at-slot:], bits)
	}
	var direct uint32
	for range bits - 4 {
		d.rng >>= 1
		direct <<= 1
		if d.code >= d.rng {
			d.code -= d.rng
			direct |= 1
		}
		d.more()
	}
	return at + direct<<4 + d.reverse(d.align[:], 4)
}

func (d *lzma) tree(probs []uint16, bits uint) uint32 {
	sym := uint32(1)
	for range bits {
		sym = sym<<1 | d.bit(&probs[sym&uint32(len(probs)-1)])
	}
	return sym - 1<<bits
}

func (d *lzma) reverse(probs []uint16, bits uint32) (out uint32) {
	sym := uint32(1)
	for i := range bits {
		bit := d.bit(&probs[sym])
		sym = sym<<1 | bit
		out |= bit << i
	}
	return out
}

// bit decodes one bit. prob is the probability of 0, in 2048ths.
func (d *lzma) bit(prob *uint16) uint32 {
	bound := d.rng >> 11 * uint32(*prob)
	var out uint32
	if d.code < bound {
		d.rng = bound
		*prob += (1<<11 - *prob) >> 5
	} else {
		d.rng -= bound
		d.code -= bound
		*prob -= *prob >> 5
		out = 1
	}
	d.more()
	return out
}

// more reads a byte when the range has become small.
func (d *lzma) more() {
	if d.rng >= 1<<24 {
		return
	}
	if len(d.in) == 0 {
		d.bad = true
		d.in = []byte{0}
	}
	d.rng <<= 8
	d.code = d.code<<8 | uint32(d.in[0])
	d.in = d.in[1:]
}
