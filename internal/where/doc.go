// Package where reads, from what the kernel and a launcher wrote down, where a
// process runs: the container, pod, unit or job that its control groups are named
// after, and the rank that its environment gives it.
//
// Both are written by others, so nothing is trusted: what does not have the known
// form says nothing, and a value that could be anything is cut short. Of the
// environment it wants the variables of a table, [Variables], and no others.
//
// The package is pure. Package session calls it as processes are found; the commands
// say with a [Selector] which of them are wanted.
package where
