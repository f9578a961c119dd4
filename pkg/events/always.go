package events

import "strings"

// always says of each class why its calls have records whatever is left out to spare the
// traced processes. Classes that are not here have none of that.
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

// Always says why each call of the row has a record: "" if one that is fast and succeeds may
// have none. Of a query that can be pending those have one that end the waiting, see [Row.Polls].
func (r *Row) Always() string {
	switch {
	case r.Class == ClassMemcpy && !strings.Contains(r.Name, "Async"):
		return "it may wait for the GPU"
	case r.Polls():
		return "the first that is not pending: the waiting ends with it"
	}
	return always[r.Class]
}

// Polls tells whether the row asks without waiting, so that a loop of its calls is a wait.
func (r *Row) Polls() bool { return r.Class == ClassQuery && r.Pending != 0 }
