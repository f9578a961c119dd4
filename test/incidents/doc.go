// Package incidents is the incident lab: faults injected into workloads on the
// simulated GPU, on the running kernel, each with the truth about it, and healthy
// workloads and decoys of which nothing may be said. It holds tests only.
//
// A scenario is a row of a table, one table a family. What was lost is measured
// without ingero: the victim notes when each of its steps begins and ends, and what
// the steps during the fault took more than those of the same run without it, is the
// truth. A session is judged as it was at its last tick: the cause, the culprit, the
// lost time, chains that are of nothing, and how long it was until the first chain.
//
//	make incidents SEEDS=1-9 ONLY=hog      a table for docs/design/accuracy.md
//	go test -tags measure ./test/incidents -run ^TestIncidents$ -args -seeds 1-3 -only disk -keep DIR
//	go test -tags measure ./test/incidents -run ^TestIncidents$ -args -replay DIR
//
// The first keeps nothing, the second the recordings and the truth, and the third
// judges those again, by the engine as it is now, without running anything.
package incidents
