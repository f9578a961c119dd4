// Package elffile reads ELF files that may be hostile: the agent runs as root, and opens the files
// of any process.
//
// [Open] reads the headers of a 64-bit little-endian file. The methods of [File] and [Section] read
// the rest when they are called: notes, symbols, versions, compressed sections. Every count and size
// of the file is bounded before memory is allocated for it, and the work of each method is bounded
// too. Invalid data counts as absent, or is an error that wraps [ErrFormat].
//
// The package does not build on debug/elf, which "is not designed to be hardened against adversarial
// inputs". debug/elf reads each table in one piece, at the size that the file claims. It copies each
// symbol's name up to its NUL, so names that overlap take quadratic memory. Versions that overlap
// take quadratic time. It panics on some files. A caller must check files beforehand and recover
// from panics, and its memory and time still have no bound. Most of debug/elf serves classes, byte
// orders, machines and relocations that the agent never reads.
//
// The package reads no memory of processes, and no DWARF data. Its callers are all packages
// that read libraries and programs: proc, symbols, unwind, python, probes and native/image.
package elffile
