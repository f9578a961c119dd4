package tick

import "ingero/pkg/events"

// Launches counts the GPU functions that a process has launched since the session began, by
// records, each with its weight. Launches = Named + Pending + those of Unnamed. Graph launches and
// launches made by another launch are not included.
type Launches struct {
	PID       uint32
	Launches  uint64
	Named     uint64 // of functions with known names
	Pending   uint64 // of functions whose names are being read
	Functions int    // different names
	Unnamed   []Unnamed
	Top       []Launched // functions with the most launches, in descending order; bounded
}

// Unnamed counts launches of functions without a name.
type Unnamed struct {
	Why      events.NoName
	Launches uint64
}

// Launched is a launched function.
type Launched struct {
	Function string // linker name: mangled
	Launches uint64
	Timed    uint64 // of Launches: measured calls
	Time     uint64 // of the measured calls, ns
}
