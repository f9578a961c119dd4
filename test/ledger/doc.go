// Package ledger measures the time ledger against clocks that are not its own.
//
// A program makes traced calls that spend their time in a known way: they spin,
// sleep, wait for another thread, a disk or a page, are preempted, throttled or
// stopped. Around each call it reads the thread's CPU clock, the scheduler's run
// delay, the quota's own account and the CPU clocks of whoever disturbs it, and
// it knows when it began to wait and when it was woken. The tests compare these
// readings with the records of a live session.
//
// Where the readings of a call contradict each other, the machine disturbed the
// measurement (the hypervisor took the CPU, say) and the call is left out; so it
// is where the kernel kept a switch or a wake-up from BPF programs, which a witness
// tells. That never depends on what the ledger says. A workload of which most calls would be
// left out is judged with what the hypervisor took, if the kernel's account of it is as much,
// or else run again, and so is one that measures something wrong while the hypervisor
// had more than a hundredth of its time; the last of five runs stands. What is wrong by the
// ledger's own figures is no measurement, and stands at once. The tests of mutations show
// that the comparisons can fail: they run on copies of the BPF programs with one mistake
// each.
//
// All this is a measurement: go test -tags measure ./test/ledger runs it. Without the tag only
// what needs no clock is tested: sums, names and lives.
package ledger
