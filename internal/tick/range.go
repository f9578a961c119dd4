package tick

import "ingero/pkg/events"

// MaxRangeName bounds the name of a [Range], in bytes.
const MaxRangeName = 127

// Range is an NVTX call of a thread that makes CUDA calls: a range begins or ends.
type Range struct {
	Time     int64 // Unix ns
	PID, TID uint32
	Op       events.Op
	Flags    RangeFlags
	Length   uint8  // of Name
	Lost     uint32 // NVTX calls of the thread without a record so far
	// ID is the number of the range that ends, or that was begun (RangeReturned). For a range that
	// begins, it is the address of the name.
	ID     uint64
	Domain uint64
	// Times of the thread so far, as in [Thread].
	InCalls, Sync, Between Times
	Name                   [MaxRangeName]byte // any bytes of the program
}

// RangeFlags are the flags of a [Range]. Values as in bpf/abi.h.
type RangeFlags uint8

// The flags.
const (
	RangeReturned    RangeFlags = 1 << iota // second record of a call: it returns ID
	RangeCut                                // the name was longer
	RangeUnaccounted                        // the times are unknown
)
