// Package probes turns catalog rows into running uprobes: it loads the BPF object, places the
// probes in a library, links them, maintains the set of traced processes, and reads counts, records
// and drops.
//
// Only this package and internal/bpf import cilium/ebpf. session decides what to trace; decode
// decodes the records.
package probes
