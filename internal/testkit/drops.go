package testkit

// HasNoAccount tells whether a reason for not keeping something is that a wait was ended by the
// agent or by a thread of the kernel, which have no account ever, or that too many had the CPU in
// a wait: any machine does that to a test, and nothing but a name is lost by it.
func HasNoAccount(reason string) bool {
	return reason == "waker-agent" || reason == "waker-kernel-thread" || reason == "culprit-no-room" || reason == "culprit-overwritten"
}
