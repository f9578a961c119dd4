package explain

import "ingero/internal/tick"

// Clean removes characters from a foreign text that could affect a terminal or a page.
func Clean(s string) string { return clean(s) }

// CPUUser names the CPU user of a share of runnable time: "stress-ng".
func CPUUser(s *tick.Share) string { return cpuUser(s) }

// BlockedOn describes the reason of a share of blocked time, and the thread that ended it: "disk
// 254:0", "pipe from loader 4830".
func BlockedOn(s *tick.Share) string { return blockedOn(s) }
