package ledger

import "math/bits"

const (
	// lengths is the number of classes of call lengths: powers of two from leastLength on.
	lengths     = 16
	leastLength = 14 // 16 us, as bits
)

// byLength counts the calls of one operation in a step, by the length of their own time.
type byLength struct {
	count [lengths]uint32
	ns    [lengths]int64
}

func (b *byLength) add(ns int64) {
	i := min(max(bits.Len64(uint64(max(ns, 0)))-leastLength, 0), lengths-1)
	b.count[i]++
	b.ns[i] += ns
}

// slowest returns the number and total time of the longest calls that together took nine tenths of
// the time: as few as the power-of-two classes can tell.
func (b *byLength) slowest() (count uint32, ns int64) {
	var all int64
	for _, x := range b.ns {
		all += x
	}
	for i := lengths - 1; i >= 0 && ns*10 < all*9; i-- {
		count += b.count[i]
		ns += b.ns[i]
	}
	return count, ns
}
