// Package native symbolizes instruction addresses of processes: the function, its source file and
// line, and the functions inlined there.
//
// A [Symbolizer] takes a process and the addresses of a stack. It reads the process's mappings at
// first use, again when an address is in none of them, and again after ten seconds. It looks each
// address of a file up once, in package image. So a stack of known addresses costs some microseconds.
// All processes that map a file, identified by its build id, share the results.
//
// Files are opened through the process, in its own root. So are separate debug files and the names
// that a JIT writes for its code (/tmp/perf-PID.map). The package uses no network. An address
// without a name gets its module and offset; an unmapped address stays a bare address.
//
// The memory held is bounded in bytes ([Limits]). [Symbolizer.Forget] drops the data of a process.
// A file's data goes when no process maps it or it has been idle for long.
//
// A Symbolizer is not safe for concurrent use. It reads files and blocks meanwhile. It stops no
// process and writes nothing. Its caller is session.
package native
