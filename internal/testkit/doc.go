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
package testkit
