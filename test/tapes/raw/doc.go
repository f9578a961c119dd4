// Package raw tests the whole pipeline without a kernel. It plays raw tapes through the session of
// a trace. Raw tapes contain the bytes that a trace read from the kernel's rings and maps (packages
// tape and session). The package contains only tests.
//
// Each scenario is two files in testdata. NAME.tape is the raw tape. NAME.json has the live run's
// output at each tick, and the truth, which was measured without ingero: the cause, the culprit,
// and the job's loss by its own clock. The tests check that playing the tape gives the live output,
// and that this output agrees with the truth.
//
// A tape has records, counts, accounts of threads and host sums as bytes. The decoder and everything
// after it run again. The tape stores other data as user space found it, with its poll or tick:
// processes and their places, command lines, names of threads and GPU functions, stacks with their
// frames, and the machine's state. For each wait, it stores the holder of Python's lock.
//
// After an intended change of the output, with the same truth:
//
//	go test ./test/tapes/raw -update
//
// To record a scenario, as root, on an otherwise idle machine:
//
//	go test -tags measure ./test/tapes/raw -run Record -args -record NAME
//
// NAME may be "all", or "real" for the programs of package real that fit small tapes, or one of
// these programs, such as real-loader-numba-fork-computes. They need the root file system that
// tools/torch-root.sh makes. While a real program is recorded, it has priority over all others.
//
// Before you commit a tape, compress it again at the highest level, without its first line:
//
//	tail -c +19 NAME.tape | zstd -dc | zstd --ultra -22 --zstd=wlog=23
//
// Only processes in the list of names_test.go keep their names on the tape; all others are "other".
package raw
