// Package lock makes sure that one ingero traces a machine, and tells the
// others who does and how it is doing.
//
// A holder has two locks on one file. The flock excludes a second holder of
// the same file, atomically. The mark is a record lock at an offset that only
// ingero uses; /proc/locks shows it with its owner's PID to every process of
// the PID namespace, so a holder in a container, whose files nobody else
// sees, is found too. The kernel drops both when the holder dies, however it
// dies; what the file says then is stale and known to be.
//
// The lock file is readable by its owner only, for whoever can open it can
// lock it. What others may know is in a second file beside it, the state,
// which the holder replaces once a second.
package lock
