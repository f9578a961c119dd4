// Package unwind makes the tables by which the kernel's walker (bpf/walk.h) finds the
// callers of a function in code without frame pointers, and keeps the kernel supplied
// with them.
//
// The compiler leaves in .eh_frame a program for each function that tells, for each of
// its addresses, where its caller's registers are. [Build] runs these programs once and
// makes a [Table] of the few rules that callers need: from what the frame's address
// follows, and where the frame pointer and the return address lie. [Keeper] knows which
// process has mapped what, loads tables as they are needed, and keeps what they take in
// the kernel within bounds.
//
// The files belong to the traced processes, so nothing in them is trusted: every read is
// checked, work is bounded by the size of the file, sizes are capped, and what is not
// understood becomes a rule that says so. An address without a rule ends a stack, with
// the reason; it is never guessed.
//
// session gives it processes, probes is its way to the kernel's maps.
package unwind
