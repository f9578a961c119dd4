// Package xid handles the faults that the NVIDIA driver reports: Xids of GPUs and SXids of
// NVSwitches. It reads them from the kernel log, and dedupes faults that arrive both by the log and
// by the driver's tracepoint. It groups faults that follow from each other, finds the process that a
// message names, and explains each code and what to do.
//
// It accepts only log lines that begin like the driver's. Text that users control, such as program
// names, never begins a line. It counts the lines that it could not parse. It accepts the PID of a
// message only if the process has the name in the message.
//
// Package session adds the faults to ticks, and ingero xid prints them.
package xid
