package testkit

// HasNoAccount tells whether a reason for not keeping something is that a wait was ended by the
// agent or by a thread of the kernel, which have no account ever: any machine does that to a test,
// and nothing is lost by it.
func HasNoAccount(reason string) bool {
	return reason == "waker-agent" || reason == "waker-kernel-thread"
}
