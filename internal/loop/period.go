package loop

import "ingero/internal/ledger"

// add takes in a turn.
func (t *thread) add(s *ledger.Step) {
	x := turnOf(s)
	t.push(&x)
	t.since++
	if t.current != nil {
		t.take(&x)
		if t.since >= maxTurns {
			t.look()
		}
		return
	}
	if len(t.ring) >= leastFew && (t.since >= lookEach || len(t.ring) == leastFew) && t.look() {
		for i := range t.ring { // turns before the loop was found
			t.take(t.turnAt(i))
		}
	}
}

// look searches the remembered turns for a loop. It reports whether a new loop begins.
func (t *thread) look() bool {
	t.since = 0
	for kind := range alike {
		if kind == coarse && len(t.ring) < maxTurns { // few kinds of turns are alike by chance
			continue
		}
		if turns := t.period(kind); turns > 0 {
			return t.enter(t.loopOf(turns, kind))
		}
	}
	if t.current != nil && t.current.turns > 1 { // it has ended; its turns have been counted
		t.current, t.turns, t.ring, t.next = nil, 0, t.ring[:0], 0
	}
	return false
}

// again counts the turns in [from, to) that equal the turn that many turns before.
func (t *thread) again(kind, turns, from, to int) (same int) {
	for i := from; i < to; i++ {
		if t.turnAt(i).token[kind] == t.turnAt(i - turns).token[kind] {
			same++
		}
	}
	return same
}

// period returns the smallest number of turns after which they repeat, or 0.
func (t *thread) period(kind int) int {
	n := len(t.ring)
	for p := 1; p <= min(mostLoop, n/3); p++ {
		from := n / 2 // earlier turns may be from something else
		want := alike[kind]
		if p == 1 {
			want -= simpler
		}
		if float64(t.again(kind, p, from, n)) >= want*float64(n-from) {
			return p
		}
	}
	return 0
}

// loopOf makes a loop of the last turns that occurred twice in sequence. It ends with the longest
// turn that occurs once in it.
func (t *thread) loopOf(turns, kind int) *found {
	l := &found{turns: turns, kind: kind}
	end := len(t.ring)
	for end > 2*turns && t.again(kind, turns, end-turns, end) < turns {
		end--
	}
	longest, at := int64(-1), end-1
	for i := end - turns; i < end; i++ {
		token := l.token(t.turnAt(i))
		if once, mean := t.seenAs(l, token, end-turns, end); once == 1 && mean > longest {
			longest, at = mean, i
		}
	}
	closer := t.turnAt(at)
	next := at + 1
	if next == end {
		next = end - turns
	}
	first := t.turnAt(next)
	l.place, l.op = closer.token[place], closer.op
	// A place that occurs once per step marks its end, for any number of launches.
	if t.count(closer, end-turns, end) == 1 {
		l.kind = place
	}
	l.closer = l.token(closer)
	if l.kind != place || t.count(first, end-turns, end) == 1 {
		l.first = l.token(first)
	}
	return l
}

// count returns how many of the turns in [from, to) end at the place of x.
func (t *thread) count(x *turn, from, to int) (n int) {
	for i := from; i < to; i++ {
		if t.turnAt(i).token[place] == x.token[place] {
			n++
		}
	}
	return n
}

// seenAs returns how often a token is among the turns in [from, to), and the mean length of its
// turns.
func (t *thread) seenAs(l *found, token uint32, from, to int) (times int, mean int64) {
	var all, sum int64
	for i := range t.ring {
		x := t.turnAt(i)
		if l.token(x) != token {
			continue
		}
		all, sum = all+1, sum+x.to-x.from
		if i >= from && i < to {
			times++
		}
	}
	return times, sum / max(all, 1)
}

// enter continues a known loop that ends at the same place, for any number of launches, or starts a
// new one.
func (t *thread) enter(l *found) bool {
	for _, x := range t.loops {
		if x.turns == l.turns && x.op == l.op && (x.turns == 1 || x.place == l.place) {
			if x != t.current {
				t.current, t.turns = x, 0
			}
			x.kind, x.first, x.closer = l.kind, l.first, l.closer
			return false
		}
	}
	l.id = t.ids.next()
	if len(t.loops) == maxLoops {
		least := 0
		for i := range t.loops {
			if t.loops[i].total < t.loops[least].total {
				least = i
			}
		}
		t.loops[least] = l
	} else {
		t.loops = append(t.loops, l)
	}
	fresh := t.current == nil
	t.current, t.turns = l, 0
	return fresh
}
