// Package image finds what lies at an address of an ELF file: the function, its source file and
// line, and the functions inlined there.
//
// [Open] reads the file's headers. [Image.Find] reads what it needs later: the symbol table, of
// which it keeps eight bytes per symbol, and the units of debug information that contain the
// addresses. Names and lines stay in the file. So the image of a library of gigabytes takes some
// megabytes ([Image.Bytes]), and can be closed at any time ([Image.Close]).
//
// Symbols come from .symtab, in the file or in its separate debug file, or else from .dynsym and
// .gnu_debugdata together. A symbol covers only its size. Lines and inlined functions come from
// DWARF 2 to 5, compressed or not, including the parts that dwz moved to a common file. Split DWARF
// (.dwo) gives lines only.
//
// The file may be hostile. Every count and size is bounded, invalid data counts as unknown, and
// nothing is read twice because the file says so. An Image is not safe for concurrent use. Its
// caller is package native.
package image
