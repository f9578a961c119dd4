// Package image says what lies at an address of an ELF file: the function, its source
// file and line, and the functions that the compiler put into it.
//
// [Open] looks at the file's headers. What names need is read when [Image.Find] asks:
// the table of symbols as eight bytes a symbol, of the debugging information the units
// that have an address which was asked for. Names and lines stay in the file. So an
// image of a library of gigabytes holds some megabytes ([Image.Bytes]), and what it
// holds can be let go at any time ([Image.Close]).
//
// Symbols are taken from .symtab, in the file or in its separate debug file, or else from
// .dynsym and .gnu_debugdata together. A symbol counts as far as its size says. Lines and
// inlined functions are taken from DWARF 2 to 5, compressed or not, with what dwz moved to
// a common file. Of split DWARF (.dwo) there are lines only.
//
// The file may be hostile. Every count and size is bounded, what does not fit is not
// known, and nothing is read twice because the file says so. An Image is for one
// goroutine. Its caller is package symbols.
package image
