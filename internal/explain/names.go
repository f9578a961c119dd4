package explain

import "ingero/internal/tick"

// Clean returns a text of somebody else's without what changes a terminal or a page.
func Clean(s string) string { return clean(s) }

// HadCPU says in words who had the CPU in a share of runnable time: "stress-ng".
func HadCPU(s *tick.Share) string { return hadCPU(s) }

// BlockedOn says in words what a share of blocked time was on, and who ended it:
// "disk 254:0", "pipe from loader 4830".
func BlockedOn(s *tick.Share) string { return blockedOn(s) }
