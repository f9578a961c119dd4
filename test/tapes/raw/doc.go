// Package raw judges the whole pipeline without a kernel: it plays raw tapes, which hold
// what a trace read from the kernel's rings and maps (packages tape and session), through
// the session that a trace runs. It holds tests only.
//
// Each scenario is two files in testdata. NAME.tape is the raw tape. NAME.json has what
// the live run said at each tick, and the truth, which was measured without ingero: the
// cause, who did it, and how much time the job lost by its own clock. The tests want the
// play to say what the live run said, and that to be true.
//
// What a tape does not play: processes and their places, command lines, names of threads
// and of GPU functions, stacks with their frames, and the machine's state are on the tape
// as user space found them, with the poll or tick at which they came. Who held Python's
// lock is on it as the answer for each wait. Records, counts, accounts of threads and
// sums of the host are on it as bytes, and everything from the decoder on runs anew.
//
// After an intended change of what is said, with the truth still the truth:
//
//	go test ./test/tapes/raw -update
//
// To record a scenario, as root, on a machine that has nothing else to do:
//
//	go test -tags measure ./test/tapes/raw -run Record -args -record NAME
//
// NAME may be "all", or "real" for the real programs of package real that make small tapes; of
// these each one can be recorded, as real-loader-numba-fork-computes, on the root that
// tools/torch-root.sh made. A real program runs before all others meanwhile.
//
// Tapes are packed as well as can be before they are committed, behind their first line:
//
//	tail -c +19 NAME.tape | zstd -dc | zstd --ultra -22 --zstd=wlog=23
//
// Only processes of the list in names_test.go keep their names on the
// tape; all others are "other".
package raw
