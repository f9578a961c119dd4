package events

import "strings"

// always says why each call of a class has a record even when records are shed. Classes without an
// entry can lose records.
var always = map[Class]string{
	ClassSync:       "a step ends with it",
	ClassMalloc:     "what memory there is follows from it",
	ClassFree:       "what memory there is follows from it",
	ClassMemory:     "what memory there is follows from it",
	ClassGraph:      "what a graph launch does follows from it",
	ClassStream:     "what streams there are, and in which order they work, follows from it",
	ClassModule:     "it loads code, which may take long",
	ClassDevice:     "what devices and contexts there are follows from it",
	ClassCollective: "ranks are compared by it",
	ClassComm:       "what ranks there are follows from it",
}

// Always returns why each call of the row has a record, or "" if a fast successful call may have
// none. For a query that can be pending, the calls that end the wait have one, see [Row.Polls].
func (r *Row) Always() string {
	switch {
	case r.Class == ClassMemcpy && !strings.Contains(r.Name, "Async"):
		return "it may wait for the GPU"
	case r.Polls():
		return "the first that is not pending: the waiting ends with it"
	}
	return always[r.Class]
}

// Polls reports whether the row queries without waiting, so that a loop of its calls is a wait.
func (r *Row) Polls() bool { return r.Class == ClassQuery && r.Pending != 0 }
