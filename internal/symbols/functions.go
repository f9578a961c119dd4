package symbols

import (
	"cmp"
	"slices"

	"ingero/pkg/events"
)

// Functions are the functions of a recording or of a trace, by handle and time. The
// zero value is empty.
type Functions struct {
	at map[functionKey][]events.Function // in order of time
	n  int
}

type functionKey struct {
	pid    uint32
	handle uint64
}

// maxFunctions bounds what is kept: all that one trace may have by [Names].
const maxFunctions = 1 << 18

// Add takes functions in, in any order. Beyond many none is taken.
func (f *Functions) Add(list []events.Function) {
	for i := range list {
		x := &list[i]
		k := functionKey{x.PID, x.Handle}
		all := f.at[k]
		j, same := slices.BinarySearchFunc(all, x.Time, func(a events.Function, t int64) int { return cmp.Compare(a.Time, t) })
		switch {
		case same:
			all[j] = *x
			continue
		case f.n >= maxFunctions:
			continue
		case f.at == nil:
			f.at = map[functionKey][]events.Function{}
		}
		f.at[k] = slices.Insert(all, j, *x)
		f.n++
	}
}

// Of returns the function that a call launched, also where another launch made it. A
// call that is no launch has none, nor has one of which nothing was told.
func (f *Functions) Of(c *events.Call) (x events.Function, ok bool) {
	op := c.Op
	if c.Flags&events.CallInherited != 0 {
		op = c.Parent
	}
	a := actionFor(op)
	if a.kind != kindLaunch || f.at == nil {
		return x, false
	}
	handle, known := c.Value(a.handle)
	if !known {
		return x, false
	}
	all := f.at[functionKey{c.PID, handle}]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Time <= c.Start {
			return all[i], true
		}
	}
	return x, false
}

// Launches says whether a call is a launch of one GPU function that no other launch
// made.
func Launches(c *events.Call) bool {
	return actionFor(c.Op).kind == kindLaunch && launches(c, kindLaunch)
}

// Name returns the mangled name of the function that a call launched, "" where it has
// none.
func (f *Functions) Name(c *events.Call) string {
	x, _ := f.Of(c)
	return x.Name
}
