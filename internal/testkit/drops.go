package testkit

// HasNoAccount reports whether a drop reason may occur in any test on any machine: the agent or a
// kernel thread, which have no account, ended a wait, or too many threads had the CPU during it.
// Such a drop loses only a name.
func HasNoAccount(reason string) bool {
	return reason == "waker-agent" || reason == "waker-kernel-thread" || reason == "culprit-no-room" || reason == "culprit-overwritten"
}
