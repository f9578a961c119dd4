// Package unwind holds the walker of native stacks (bpf/walk.h) and its tables
// (internal/unwind) against gdb, which stops at the same call and says who called. The
// walker is in a program of its own here (testdata/walk.bpf.c), compiled by the tests, so that
// what they show is the walker and nothing else.
package unwind
