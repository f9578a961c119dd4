package tick

import "strconv"

// signals has the names of the signals by number, for x86-64 and arm64
// (include/uapi/asm-generic/signal.h).
var signals = [...]string{1: "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
	"SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU",
	"SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"}

// SignalName returns the name of a signal, or its number.
func SignalName(n uint8) string {
	if int(n) < len(signals) && signals[n] != "" {
		return signals[n]
	}
	return "signal " + strconv.Itoa(int(n))
}
