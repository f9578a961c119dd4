package symbols

import (
	"cmp"
	"slices"

	"ingero/pkg/events"
)

// Functions has the functions of a recording or a trace, by handle and time. The zero value is
// empty.
type Functions struct {
	byHandle map[functionKey][]events.Function // in order of time
	n        int
}

type functionKey struct {
	pid    uint32
	handle uint64
}

// maxFunctions bounds the functions kept: all that one trace may get from [Names].
const maxFunctions = 1 << 18

// Add adds functions, in any order. Beyond maxFunctions it ignores them.
func (f *Functions) Add(list []events.Function) {
	for i := range list {
		x := &list[i]
		k := functionKey{x.PID, x.Handle}
		all := f.byHandle[k]
		j, same := slices.BinarySearchFunc(all, x.Time, func(a events.Function, t int64) int { return cmp.Compare(a.Time, t) })
		switch {
		case same:
			all[j] = *x
			continue
		case f.n >= maxFunctions:
			continue
		case f.byHandle == nil:
			f.byHandle = map[functionKey][]events.Function{}
		}
		f.byHandle[k] = slices.Insert(all, j, *x)
		f.n++
	}
}

// Lookup returns the function that a call launched, also for a launch nested in another. ok is
// false for other calls, and for launches without a known function.
func (f *Functions) Lookup(c *events.Call) (x events.Function, ok bool) {
	op := c.Op
	if c.Flags&events.CallInherited != 0 {
		op = c.Parent
	}
	a := actionFor(op)
	if a.kind != kindLaunch || f.byHandle == nil {
		return x, false
	}
	handle, known := c.Value(a.handle)
	if !known {
		return x, false
	}
	all := f.byHandle[functionKey{c.PID, handle}]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Time <= c.Start {
			return all[i], true
		}
	}
	return x, false
}

// Launches reports whether a call launches one GPU function and is not nested in another launch.
func Launches(c *events.Call) bool {
	return actionFor(c.Op).kind == kindLaunch && launches(c, kindLaunch)
}

// Name returns the mangled name of the function that a call launched, "" if there is none.
func (f *Functions) Name(c *events.Call) string {
	x, _ := f.Lookup(c)
	return x.Name
}
