package unwind

// ids allocates numbers from 0 on.
type ids struct {
	limit uint32
	next  uint32
	back  []uint32
}

func (i *ids) take() (uint32, bool) {
	if n := len(i.back); n > 0 {
		id := i.back[n-1]
		i.back = i.back[:n-1]
		return id, true
	}
	if i.next == i.limit {
		return 0, false
	}
	i.next++
	return i.next - 1, true
}

func (i *ids) free(id uint32) { i.back = append(i.back, id) }

func (i *ids) used() int { return int(i.next) - len(i.back) }
