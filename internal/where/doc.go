// Package where finds out where a process runs: the container, pod, unit or job after which its
// control groups are named, and the rank in its environment.
//
// Others write both, so the package trusts nothing: it ignores unknown forms, and bounds free text.
// Of the environment it reads only the variables that [Variables] lists.
//
// The package is pure. Package session calls it for each process found. The commands select
// processes with a [Selector].
package where
