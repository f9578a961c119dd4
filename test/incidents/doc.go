// Package incidents is the incident lab: faults injected into workloads on the
// simulated GPU, on the running kernel, each with the truth about it stated, and
// healthy workloads and decoys of which nothing may be said. It holds tests only.
//
//	go test ./test/incidents -args -seconds 60
//
// runs each for a minute; without, for some seconds.
package incidents
