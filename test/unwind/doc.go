// Package unwind compares the walker of native stacks (bpf/walk.h) and its tables (internal/unwind)
// with gdb, which stops at the same call and unwinds it. The walker runs in a separate program here
// (testdata/walk.bpf.c), which the tests compile, so that they test only the walker.
package unwind
