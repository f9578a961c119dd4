// Package incidents is the incident lab. It injects faults with known truth into workloads on the
// simulated GPU and the running kernel. It also has healthy workloads and decoys, which must have
// no chain. It contains only tests.
//
// A scenario is a row of a table, one table per family. The truth is measured without ingero: the
// victim records the begin and end of each step, and the lost time is how much longer the steps
// during the fault took than the run's other steps. A session is judged by its last tick: the
// cause, the culprit, the lost time, false chains, and the time to the first chain.
//
//	make incidents SEEDS=1-9 ONLY=hog      a table for docs/design/accuracy.md
//	go test -tags measure ./test/incidents -run ^TestIncidents$ -args -seeds 1-3 -only disk -keep DIR
//	go test -tags measure ./test/incidents -run ^TestIncidents$ -args -replay DIR
//
// The first keeps nothing. The second keeps the recordings and the truth. The third judges those
// again with the current engine, without running anything.
//
// The scenarios are measurements (tag measure). A few of them, and the tests of the lab's own code,
// are in the gate (tag smoke, make test-smoke).
package incidents
