// Package ledgerexact compares the time ledger with bounds that hold on any machine,
// however slow and busy it is.
//
// A program (test/ledger/testdata) makes traced calls that spend their time in a known
// way. Before and after each call it reads the thread's CPU clock, the scheduler's run
// delay, the CPU quota's account and the CPU clocks of the processes that compete with
// it. What happened inside the call is at most the difference of two readings. It is at
// least that difference less the wall clock time between the readings and the call. Calls
// of which the kernel did not show every switch to BPF programs carry a flag
// ([ingero/pkg/events.CallUnseen]) and are left out.
//
// Package test/ledger measures how far the ledger is off. Only tests import this package.
package ledgerexact
