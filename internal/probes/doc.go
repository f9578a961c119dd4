// Package probes turns catalog rows into running uprobes: it loads the BPF
// object, finds and places the probes in a library, links them, keeps the set
// of traced processes, and reads counts, records and drops.
//
// It is the only package besides internal/bpf that imports cilium/ebpf. It does
// not decide what to trace and decodes no record: session does the one, decode
// the other.
package probes
