// Package host reads what the kernel's files say of the host once a second, and what
// programs cannot sum up as cheaply: pressure (PSI), swapping, major faults of traced
// processes, and the quota, limit and pressure of their cgroups, of either version.
//
// All are counters that only grow; [Poller.Read] returns what was added since the one
// before. What is too little to be worth a line is kept for later and never lost.
// Files that this kernel lacks are reports. It starts nothing and keeps no file open.
// Sizes and numbers of what it reads are bounded; what is beyond is counted.
//
// Its caller is session.
package host
