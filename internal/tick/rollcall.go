package tick

import "ingero/pkg/events"

// RollCall is a collective that some ranks of a communicator have entered and others, also traced
// by this session, have not. The others are later than usual, or have ended.
type RollCall struct {
	Comm    uint64    // ID of the communicator
	Ranks   uint32    // ranks of the communicator on all machines; 0: unknown
	Seq     uint64    // number of the collective, from 1
	Op      events.Op // 0: unknown
	Since   int64     // Unix ns: when the first rank entered it; if none has, when the rank ended
	Entered []Rank    // may be empty: a rank has ended, and none has entered the next collective
	Missing []Missing
}

// Rank is a rank of a communicator, in a process.
type Rank struct {
	Rank int32 // below 0: unknown
	PID  uint32
}

// Missing is a rank that has not entered a collective, and its current activity.
type Missing struct {
	Rank
	Seq   uint64 // collectives that it has entered
	Last  CommOp // the last of them
	State CommState
	End   Ending
	// Lives means that the thread that entered the last collective exists. Open and Now are its
	// current activity. At is the place in the program of its call, or of its last collective, in
	// words; empty: unknown.
	Lives bool
	TID   uint32
	Open  OpenCall // Op 0: in no call
	Now   ThreadState
	At    string
}

// Ending is how a process ended.
type Ending struct {
	Time   int64 // Unix ns; 0: still running
	Signal uint8 // 0: none
	By     uint32
	Comm   string // of By
	OOM    bool   // killed for lack of memory
	Exec   bool   // it runs another program now
}

// Straggler is a time in which all known ranks of a communicator but one had entered a collective.
type Straggler struct {
	Comm     uint64 // ID of the communicator
	From, To int64  // Unix ns: when the last of the others entered it, and when this one did
	Rank     Rank
}

// Entry is the entry of a rank into a collective.
type Entry struct {
	Comm uint64 // its Number
	Time int64  // Unix ns
	Op   events.Op
}
