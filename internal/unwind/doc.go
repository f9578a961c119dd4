// Package unwind builds the tables with which the kernel's walker (bpf/walk.h) finds the callers of
// functions without frame pointers, and keeps the kernel supplied with them.
//
// For each function the compiler leaves a program in .eh_frame that locates the caller's registers
// at each address. [Build] runs these programs once and makes a [Table] of the few rules that
// callers need: how the frame's address follows, and where the frame pointer and the return address
// are. [Keeper] tracks the mappings of each process, loads tables as they are needed, and bounds
// the memory that they take in the kernel.
//
// The files belong to the traced processes, so the package trusts nothing in them. Every read is
// checked, work is bounded by the size of the file, sizes are capped, and an unsupported
// instruction becomes a rule that says so. An address without a rule ends a stack with a reason;
// the package never guesses.
//
// session adds processes; probes writes to the kernel's maps.
package unwind
