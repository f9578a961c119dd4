package image

import (
	"cmp"
	"slices"
	"sort"
)

// Limits of a walk through a unit.
const (
	walkChunk    = 128 << 10
	maxFunctions = 1 << 19 // per unit, 12 bytes each
	maxInlined   = 64      // nesting depth
	maxHops      = 8       // references from an entry to the one with its name
)

// function is a range of addresses of a function.
type function struct {
	lo, hi uint32 // relative to the base of the image
	die    uint32 // offset of its entry in the unit
}

// walker reads the entries of a unit in order.
type walker struct {
	u    *loaded
	buf  []byte
	at   uint64 // offset of buf in the section
	c    cursor
	most bool // buf has its maximum length
	end  bool
}

func (u *loaded) walk(off uint64) *walker {
	w := &walker{u: u}
	w.fill(off, walkChunk/32) // most functions are short
	return w
}

func (w *walker) fill(off uint64, n int) {
	end := w.u.off + w.u.header.size
	if off < w.u.off || off >= end {
		w.end = true
		return
	}
	w.most = n >= walkChunk
	b, err := w.u.d.sec[secInfo].Some(w.buf, off, int(min(uint64(n), end-off)))
	w.buf, w.at, w.c, w.end = b, off, cursor{b: b}, err != nil
}

// next reads an entry. ok is false at the end of a list of children, and sets end after the last
// entry.
func (w *walker) next(x *die) (off uint64, ok bool) {
	for !w.end {
		from := w.c.off
		off = w.at + uint64(from)
		ok = w.u.parse(&w.c, x)
		if !w.c.bad {
			return off, ok
		}
		if from == 0 && w.most { // the entry does not end
			break
		}
		w.fill(off, walkChunk)
	}
	w.end = true
	return 0, false
}

// skip skips the children of an entry that was read.
func (w *walker) skip(x *die) {
	if !x.children {
		return
	}
	if here := w.at + uint64(w.c.off); x.sibling > here {
		if rest := x.sibling - here; rest <= uint64(len(w.c.b)-w.c.off) {
			w.c.off += int(rest)
		} else {
			w.fill(x.sibling, walkChunk)
		}
		return
	}
	var inner die
	for depth := 1; depth > 0 && !w.end; {
		switch _, ok := w.next(&inner); {
		case !ok:
			depth--
		case inner.children:
			depth++
		}
	}
}

// list finds the functions of a unit.
func (u *loaded) list(base uint64) {
	u.listed = true
	w := u.walk(u.off + uint64(u.header.entries))
	var x die
	for !w.end && len(u.functions) < maxFunctions {
		off, ok := w.next(&x)
		if !ok {
			continue
		}
		switch x.tag {
		case tagArray, tagClass, tagEnum, tagStruct, tagSubroutine, tagUnion:
			if x.sibling > 0 {
				w.skip(&x)
			}
		case tagSubprogram:
			u.rangesOf(&x, func(lo, hi uint64) bool {
				if lo >= base && hi-base <= 1<<32-1 && u.d.loads.Code(lo) {
					u.functions = append(u.functions, function{uint32(lo - base), uint32(hi - base), uint32(off - u.off)})
				}
				return len(u.functions) < maxFunctions
			})
		}
	}
	slices.SortFunc(u.functions, func(a, b function) int { // the first of equal ones is found
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.die, a.die))
	})
	u.functions = slices.Clip(u.functions)
	n := len(u.functions) * 12
	u.cost += n
	u.d.openBytes += n
}

// function returns the entry of the function at an address. Of several it is the one that begins
// last.
func (u *loaded) function(rel uint32) (off uint64, ok bool) {
	n := sort.Search(len(u.functions), func(i int) bool { return u.functions[i].lo > rel })
	for i := n - 1; i >= 0 && i >= n-maxOverlap; i-- {
		if f := &u.functions[i]; rel < f.hi {
			return u.off + uint64(f.die), true
		}
	}
	return 0, false
}

// tagBlock is a block within a function.
const tagBlock = 0x0b

// chain returns the entry of a function and those of the functions inlined at the address,
// outermost first.
func (u *loaded) chain(off, addr uint64) []die {
	w := u.walk(off)
	var x die
	if _, ok := w.next(&x); !ok {
		return nil
	}
	out := []die{x}
	if !x.children {
		return out
	}
	for depth := 1; depth > 0 && !w.end; {
		if _, ok := w.next(&x); !ok {
			depth--
			continue
		}
		in := false
		if x.tag == tagInlined || x.tag == tagBlock {
			none := x.tag == tagBlock
			u.rangesOf(&x, func(lo, hi uint64) bool {
				none, in = false, in || lo <= addr && addr < hi
				return !in
			})
			in = in || none
		}
		switch {
		case !in:
			w.skip(&x)
			continue
		case x.tag == tagInlined:
			if out = append(out, x); len(out) > maxInlined {
				return out
			}
			if depth = 1; !x.children { // no later entry can have the address
				return out
			}
		case x.children:
			depth++
		}
	}
	return out
}

// nameOf returns a function's linkage name, or else its name in the source.
func (u *loaded) nameOf(x *die) string {
	name := ""
	for range maxHops {
		if s := u.string(x.linkage); s != "" {
			return s
		}
		if name == "" {
			name = u.string(x.name)
		}
		ref := x.origin
		if ref.form == 0 {
			ref = x.spec
		}
		if ref.form == 0 {
			break
		}
		next := &die{}
		o, ok := u.follow(ref, next)
		if !ok {
			break
		}
		u, x = o, next
	}
	return name
}
