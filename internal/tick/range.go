package tick

import "ingero/pkg/events"

// MaxRangeName bounds the name of a [Range], in bytes.
const MaxRangeName = 127

// Range is a call of NVTX by a thread that makes CUDA calls: a range begins or ends.
type Range struct {
	Time     int64 // Unix ns
	PID, TID uint32
	Op       events.Op
	Flags    RangeFlags
	Length   uint8  // of Name
	Lost     uint32 // such calls of the thread that have no record, so far
	// ID is the number of the range that ends, or that was begun (RangeReturned); of one
	// that begins, where its name is.
	ID     uint64
	Domain uint64
	// Times of the thread up to now, as in [Thread].
	InCalls, Sync, Between Times
	Name                   [MaxRangeName]byte // whatever the program has there
}

// RangeFlags say more of a [Range]. Values as in bpf/abi.h.
type RangeFlags uint8

// The flags.
const (
	RangeReturned    RangeFlags = 1 << iota // the second record of a call: it returns ID
	RangeCut                                // the name was longer
	RangeUnaccounted                        // the times are not known
)
