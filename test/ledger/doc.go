// Package ledger compares the time ledger with other clocks.
//
// A program (testdata) makes traced calls that spend their time in a known way: it uses the CPU,
// sleeps, waits for another thread, a disk or a page, is preempted, throttled or stopped. Before
// and after each call the program reads the thread's CPU clock, the scheduler's run delay, the CPU
// quota's account and the CPU clocks of the processes that compete with it. It also knows when it
// began to wait and when it was woken. The tests compare these readings with the records of a live
// session.
//
// # Exact tests
//
// TestParts, TestPartsLessProbes, TestReasons, TestOpenCall and TestKilledInAWait hold on any
// machine, however slow and busy it is. Sums by the ledger's own clock must be equal: the parts of
// a call, the records and the kernel's counts, the calls and the thread's account. Sums by other
// clocks lie between bounds: the time inside a call is at most the difference of two readings, and
// at least that difference less the wall clock time between the readings and the call. Calls of
// which the kernel did not show every switch to BPF programs carry a flag
// ([ingero/pkg/events.CallUnseen]) and are left out of the bounds.
//
// # Measurements
//
// The files *_measure_test.go (go test -tags measure ./test/ledger) measure the ledger's error:
// some microseconds in the median. TestPartsByClocks compares durations and charges,
// TestReasonsByClocks a thousand waits of each kind, and TestStolen the time that a hypervisor
// takes. TestMutations runs copies of the BPF programs with one mistake each, to show that the
// comparisons can fail.
//
// A call is left out if its readings contradict each other (for example because the hypervisor took
// the CPU), or if a BPF program that only counts (the witness) missed one of its switches or
// wake-ups. That never depends on the ledger's figures. A workload runs again, up to five times, in
// two cases: most of its calls would be left out and the kernel's account of stolen time does not
// explain them; or a comparison fails while the hypervisor had more than a hundredth of the time.
// The exact checks are never repeated.
//
// Only tests import this package.
package ledger
