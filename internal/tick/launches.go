package tick

import "ingero/pkg/events"

// Launches says which GPU functions a process has launched since the session began,
// as far as records tell: each counts with its weight. Launches = Named + Pending +
// those of Unnamed. A launch of a graph is none of them, nor is one that another
// launch made.
type Launches struct {
	PID       uint32
	Launches  uint64
	Named     uint64 // of functions whose names are known
	Pending   uint64 // whose names are being read
	Functions int    // different names
	Unnamed   []Unnamed
	Top       []Launched // those with most launches, which come first; not all
}

// Unnamed are launches of functions without a name.
type Unnamed struct {
	Why      events.NoName
	Launches uint64
}

// Launched is a function of which there were launches.
type Launched struct {
	Function string // as it is linked: mangled
	Launches uint64
	Timed    uint64 // of Launches: whose call was measured
	Time     uint64 // of these calls, ns
}
