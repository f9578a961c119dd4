// Package testkit is shared by tests: requirements on the machine, waiting on a condition, golden
// files, leak checks and child processes.
//
// A test that needs something a machine may lack says so first:
//
//	testkit.NeedBPF(t)
//	testkit.NeedTool(t, "clang-14")
//
// Without it the test is skipped with a reason that starts with "needs", which the test summary
// counts. If CI is set in the environment it fails instead, except for a missing GPU. Only tests
// import this package.
//
// # Kinds of tests
//
// A test is one of three kinds, and its file name shows which:
//
//   - Judgement: plain _test.go files. go test ./... and make test run them, and a failure
//     blocks a change. Their result depends only on what happened: counts, arguments, sums,
//     order, names. They wait for a condition with [Eventually] or for a child's line. If time
//     is the subject, they use a fake clock (testing/synctest, or a clock parameter). They do not
//     depend on how fast or how idle the machine is.
//   - Measurement: *_measure_test.go, with the build tag measure. Latency, overhead,
//     throughput, and tests that compare clocks or depend on scheduling. They report figures
//     through [Measured], and never block a change.
//   - Interop: *_interop_test.go, with the build tag interop. They need real servers,
//     browsers, emulators or drivers, and otherwise count as the first kind.
//
// Several runs of the suite share a machine. So a test uses its own directories, ports and names,
// and looks only at processes that it started. Processes started by [Start] or [Launch] end with
// the test process, even if that is killed.
package testkit
