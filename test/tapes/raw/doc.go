// Package raw judges the whole pipeline without a kernel. It plays raw tapes through the session of
// a trace. Raw tapes contain the bytes that a trace read from the kernel's rings and maps (packages
// tape and session). The package contains only tests.
//
// Each scenario is two files in testdata. NAME.tape is the raw tape. NAME.json has the live run's
// output at each tick, and the truth, which was measured without ingero: the cause, the culprit,
// and the job's loss by its own clock. The tests check that a play gives the live output, and that
// it is true.
//
// A tape has records, counts, accounts of threads and host sums as bytes, and everything from the
// decoder on runs again. Some data is not played, but stored as user space found it, with its poll
// or tick: processes and their places, command lines, names of threads and GPU functions, stacks
// with their frames, and the machine's state. The holder of Python's lock is stored as the answer
// for each wait.
//
// After an intended change of the output, with the same truth:
//
//	go test ./test/tapes/raw -update
//
// To record a scenario, as root, on an otherwise idle machine:
//
//	go test -tags measure ./test/tapes/raw -run Record -args -record NAME
//
// NAME may be "all", or "real" for the real programs of package real that fit small tapes, or one
// of those, such as real-loader-numba-fork-computes. They need the root that tools/torch-root.sh
// makes. A real program has priority over all others while it is recorded.
//
// Tapes are packed as tightly as possible before they are committed, after their first line:
//
//	tail -c +19 NAME.tape | zstd -dc | zstd --ultra -22 --zstd=wlog=23
//
// Only processes in the list of names_test.go keep their names on the tape; all others are "other".
package raw
