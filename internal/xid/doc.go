// Package xid handles the faults that the NVIDIA driver reports: Xids of GPUs and SXids of
// NVSwitches. It reads them from the kernel's log, dedupes faults that came both ways, groups
// faults that follow from each other, finds the process that a message names, and explains each
// code and what to do.
//
// It accepts only log lines that begin as the driver's do; what users can write into the log
// (program names) never begins a line. It counts the lines that it could not parse. It accepts a
// process number only if the name matches.
//
// The session adds faults to ticks with it, and the xid command shows them.
package xid
