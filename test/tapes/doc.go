// Package tapes judges recordings of the incident lab (test/incidents). A tape is the recording of
// one run on a live kernel, the chains that ingero reported during it, and the truth: the cause,
// the culprit and the lost time by the victim's own clock.
//
// The tests replay each tape in testdata through the session's pipeline. The chains must equal
// those reported live, byte for byte, and be right. Nothing in the tests depends on the machine.
//
//	make tapes ONLY='cpu/a hog on the core'   record tapes again, on a quiet machine
//	go test ./test/tapes -update              accept changed chains; they still must be right
//
// A run becomes a tape if its cause, culprit and lost time are right. Other programs took a CPU
// during some runs. The JSON file of such a tape lists the chains reported for that (Disturbed) and
// the resulting errors of the diagnosis (Misled), and a replay must give the same. Tapes of healthy
// jobs and decoys are of undisturbed runs only. Processes outside the lab lose their names.
//
// The package also has the judge and the replay that the lab uses. Only tests import it.
package tapes
