package stats

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt reports bytes that are no encoded Sketch.
var ErrCorrupt = errors.New("corrupt sketch")

// sketchVersion is the first byte of the binary form.
const sketchVersion = 1

// AppendBinary appends the binary form: a version byte, then as varints the sum, the smallest, the
// largest, the number of buckets in use, and for each bucket its distance from the previous one and
// its count. It never fails.
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, sketchVersion)
	b = binary.AppendUvarint(b, s.sum)
	b = binary.AppendUvarint(b, uint64(s.min))
	b = binary.AppendUvarint(b, uint64(s.max))
	used := uint64(0)
	for _, row := range s.rows {
		for _, n := range row {
			if n != 0 {
				used++
			}
		}
	}
	b = binary.AppendUvarint(b, used)
	prev := -1
	for oct, row := range s.at {
		if row == 0 {
			continue
		}
		for sub, n := range &s.rows[row-1] {
			if n == 0 {
				continue
			}
			i := oct*sketchSub + sub
			b = binary.AppendUvarint(b, uint64(i-prev))
			b = binary.AppendUvarint(b, n)
			prev = i
		}
	}
	return b, nil
}

// MarshalBinary returns the binary form.
func (s *Sketch) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary replaces the sketch by the decoded data. For invalid data it returns an error
// that wraps [ErrCorrupt] and leaves the sketch unchanged. It allocates at most 32 KB for any data.
func (s *Sketch) UnmarshalBinary(data []byte) error {
	d := sketchReader{b: data}
	if v := d.byte(); !d.bad && v != sketchVersion {
		return fmt.Errorf("%w: version %d, this program reads version %d", ErrCorrupt, v, sketchVersion)
	}
	var n Sketch
	n.sum = d.uvarint()
	lowest, highest := d.uvarint(), d.uvarint()
	used := d.uvarint()
	if used > sketchOctaves*sketchSub {
		return fmt.Errorf("%w: %d buckets", ErrCorrupt, used)
	}
	at := -1
	var low, high uint64 // bounds of the sum, by the buckets
	first, last := -1, -1
	for range used {
		step, count := d.uvarint(), d.uvarint()
		if d.bad || step == 0 || count == 0 || step > uint64(sketchOctaves*sketchSub-1-at) {
			return fmt.Errorf("%w: bad bucket after %d", ErrCorrupt, at)
		}
		at += int(step)
		oct, sub := at/sketchSub, at%sketchSub
		if n.at[oct] == 0 {
			n.grow(oct)
		}
		n.rows[n.at[oct]-1][sub] = count
		n.count = satAdd(n.count, count)
		lo, hi := sketchBounds(oct, sub)
		low = satAdd(low, satMul(uint64(lo), count))
		high = satAdd(high, satMul(uint64(hi), count))
		if first < 0 {
			first = at
		}
		last = at
	}
	switch {
	case d.bad || len(d.b) != 0:
		return fmt.Errorf("%w: %d bytes end too early or too late", ErrCorrupt, len(data))
	case n.sum < low || n.sum > high:
		return fmt.Errorf("%w: the sum does not fit the buckets", ErrCorrupt)
	case !inBucket(lowest, first) || !inBucket(highest, last) || lowest > highest:
		return fmt.Errorf("%w: the extremes do not fit the buckets", ErrCorrupt)
	}
	n.min, n.max = int64(lowest), int64(highest)
	*s = n
	return nil
}

// inBucket reports whether v belongs in bucket i; the empty sketch's extremes are zero and its
// bucket is -1.
func inBucket(v uint64, i int) bool {
	if i < 0 {
		return v == 0
	}
	if v>>63 != 0 {
		return false
	}
	oct, sub := sketchBucket(v)
	return oct*sketchSub+sub == i
}

// sketchReader reads bytes and records whether they ran out.
type sketchReader struct {
	b   []byte
	bad bool
}

func (d *sketchReader) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *sketchReader) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}
