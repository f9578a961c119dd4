// Package unwind compares the walker of native stacks (bpf/walk.h) and its tables (internal/unwind)
// with gdb, which stops at the same call and unwinds it. The tests compile the walker into a
// program of its own (testdata/walk.bpf.c), so that they test only the walker.
package unwind
