// Package lock ensures that only one ingero traces a machine. It shows other processes which one
// traces, and its state.
//
// A holder has two locks on one file. The flock excludes a second holder of the same file,
// atomically. The mark is a record lock at an offset that only ingero uses. /proc/locks shows it
// with its owner's PID to every process of the PID namespace. So a holder in a container, whose
// files nobody else sees, is found too. The kernel drops both locks when the holder dies, however
// it dies; what the file says then is known to be stale.
//
// Only the owner can read the lock file, since anyone who can open it can lock it. Public
// information is in a second file beside it, the state, which the holder replaces once a second.
// Commands print parts of it, so its types are in package wire.
package lock
