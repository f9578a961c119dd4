// Package xid knows the faults that the NVIDIA driver reports: Xids of GPUs and
// SXids of NVSwitches. It reads them from the kernel's log, sees that one which came
// in two ways is one, groups those that follow from each other, finds the process
// that a message names, and has a sentence on what each code means and what to do.
//
// Of the kernel's log it takes only lines that begin as the driver's do: what a
// user can put into the log (names of programs) begins none. It counts the lines that
// it could not read. Of a process it believes a number only if the name fits.
//
// The session joins faults to ticks by it, and the xid command shows them.
package xid
