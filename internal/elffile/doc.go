// Package elffile reads ELF files that may be hostile: the agent runs as root, and opens the files
// of any process.
//
// [Open] reads the headers of a 64-bit little-endian file. The methods of [File] and [Section] read
// the rest when they are called: notes, symbols, versions, compressed sections. Every count and size
// of the file is bounded before memory is allocated for it, and the work of each method is bounded
// too. Invalid data counts as absent, or is an error that wraps [ErrFormat].
//
// The package does not build on debug/elf, which "is not designed to be hardened against adversarial
// inputs". That package reads tables whole, at the size that the file claims. It copies each name of
// a symbol up to its NUL, so names that overlap take quadratic memory, and versions that overlap
// take quadratic time. It panics on some files. Its callers had to check files beforehand and to
// recover, and still had no bound. Most of it serves classes, byte orders, machines and relocations
// that the agent does not meet.
//
// The package reads no memory of processes, and no content of DWARF. Its callers are all packages
// that read libraries and programs: proc, symbols, unwind, python, probes and native/image.
package elffile
