// Package native names the instructions that threads of processes were at: the function,
// its source file and line, and the functions that the compiler put into it.
//
// A [Symbolizer] is asked with a process and the addresses of a stack. It knows what the
// process has mapped, which it reads when it first hears of it and again when an address
// is of nothing that it knows; what lies at an address of a file it asks package image,
// once. So a stack costs some microseconds once its addresses are known, and what is
// known is shared by all processes that map the same file, which its build id tells.
//
// Files are found through the process, in its own root, as are their separate debug files
// and the names that a JIT writes for what it makes (/tmp/perf-PID.map); nothing is asked
// of a network. What has no name has its module and offset, and what is not mapped its
// address alone.
//
// What is held is bounded in bytes ([Limits]), and goes the way it came: a process's with
// [Symbolizer.Forget], a file's when no process has it or nobody asked for long.
//
// A Symbolizer is for one goroutine, and reads files: it may block as these do. It stops
// no process and writes nothing. Its caller is the session.
package native
