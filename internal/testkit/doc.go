// Package testkit is what tests share: what they need of the machine, waiting
// on a condition, golden files, leak checks and child processes.
//
// A test that needs something a machine may lack says so first:
//
//	testkit.NeedBPF(t)
//	testkit.NeedTool(t, "clang-14")
//
// Where it is missing the test is skipped with a reason that starts "needs",
// which the test summary counts. Where CI is set in the environment it fails
// instead, but for a GPU. Nothing outside tests imports this package.
//
// # Kinds of tests
//
// A test is one of three kinds, and its file says which:
//
//   - Judgement: plain _test.go files. go test ./... and make test run them, and a failure
//     blocks a change. They pass or fail by what happened: counts, arguments, sums, order,
//     who is named. They wait for a condition with [Eventually] or for a child's line, and
//     have a fake clock (testing/synctest, or a clock that is passed in) where time is the
//     subject. They do not depend on how fast or how idle the machine is.
//   - Measurement: *_measure_test.go, with the build tag measure. Latency, overhead,
//     throughput, and whatever compares clocks or depends on who got the CPU. They report
//     figures by [Measured], and never block a change.
//   - Interop: *_interop_test.go, with the build tag interop. They need real servers,
//     browsers, emulators or drivers, and are otherwise judged as the first kind.
//
// Runs of the suite share a machine: a test uses its own directories, ports and names, and
// looks only at processes that it started. What it starts by [Start] or [Launch] ends with
// the test process, even where that is killed.
package testkit
