// Package tapes judges recordings of the incident lab (test/incidents). A tape is the recording
// of one run on a live kernel, the chains that ingero reported during it, and the truth about
// it: the cause, the culprit and the lost time by the victim's own clock.
//
// The tests replay each tape in testdata through the session's pipeline. The chains must be
// those reported live, byte for byte, and right. Nothing in them depends on the machine.
//
//	make tapes ONLY='cpu/a hog on the core'   record tapes anew, on a quiet machine
//	go test ./test/tapes -update              accept changed chains; they still must be right
//
// Only runs whose verdict is right and that nothing disturbed become tapes. Processes that
// are not of the lab lose their names.
//
// The package also has the judge and the replay that the lab uses. Only tests import it.
package tapes
