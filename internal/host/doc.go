// Package host reads the kernel's files on the host once a second, for values that programs cannot
// sum up as cheaply: pressure (PSI), swapping, major faults of traced processes, and the quota,
// limit and pressure of their cgroups, of either version.
//
// All are counters that only grow; [Poller.Read] returns the growth since its last call. Growth too
// small to report is kept for later and never lost. Missing files are reports. The package starts
// nothing and keeps no file open. Sizes and numbers of its inputs are bounded; the excess is
// counted.
//
// session calls this package.
package host
