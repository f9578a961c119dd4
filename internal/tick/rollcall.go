package tick

import "ingero/pkg/events"

// RollCall is a collective that some ranks of a communicator have entered and others,
// which this session sees too, have not: for longer than they are apart as a rule, or
// because they have ended.
type RollCall struct {
	Comm    uint64    // ID of the communicator
	Ranks   uint32    // that it has, wherever they run; 0: not known
	Seq     uint64    // number of the collective, from 1
	Op      events.Op // 0: not known
	Since   int64     // Unix ns: when the first rank entered it; when the rank ended, where none has
	Entered []Rank    // may be empty: a rank has ended, and nobody has come to the next collective
	Missing []Missing
}

// Rank is a rank of a communicator, in a process.
type Rank struct {
	Rank int32 // below 0: not known
	PID  uint32
}

// Missing is a rank that has not entered a collective, and what it does instead.
type Missing struct {
	Rank
	Seq   uint64 // collectives that it has entered
	Last  CommOp // the last of them
	State CommState
	End   Ending
	// Lives says that its thread, the one that entered the last, is there: what Open and
	// Now say is what it does, and At where in the program its call, or its last
	// collective, was made, in words; empty: not known.
	Lives bool
	TID   uint32
	Open  OpenCall // Op 0: it is in no call
	Now   Doing
	At    string
}

// Ending says how a process ended.
type Ending struct {
	Time   int64 // Unix ns; 0: it lives
	Signal uint8 // 0: none
	By     uint32
	Comm   string // of By
	OOM    bool   // for want of memory
	Exec   bool   // it runs another program now
}

// Late is a time in which all ranks of a communicator that are known had entered a
// collective, but one.
type Late struct {
	Comm     uint64 // ID of the communicator
	From, To int64  // Unix ns: when the last of the others entered it, and when that one did
	Rank     Rank
}

// Entry is that a rank entered a collective.
type Entry struct {
	Comm uint64 // its Number
	Time int64  // Unix ns
	Op   events.Op
}
