// Package decode turns the kernel's records into events: bytes of a ring into
// calls and process events, the kernel's monotonic clock into wall time.
//
// It holds the only unsafe code on that way, behind length checks, and refuses
// nothing silently: a record that is not what it says is an error, and its
// caller counts it. The kernel cuts records behind what they need; nothing is
// read beyond the bytes of a record. session calls it.
package decode
