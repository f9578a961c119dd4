// Package tape is the file format of raw tapes: what a trace read from the kernel and
// from the machine, before it was decoded. Package session records and plays them.
//
// A file begins with a line of text, "ingero raw tape 1\n", in which 1 is [Version]. A
// zstd stream follows. In it are frames: a byte for the [Kind], the length of the payload
// as a uvarint, the payload. The first frame is the [Header] as JSON, the last one is of
// kind End. A tape without it was cut.
//
// # Versions
//
// Version changes when the framing does, so that an old reader cannot read the file. A
// new kind of frame is no change of version: a player that does not ask for a kind
// ignores its frames, and a player that asks for a kind that an older tape lacks gets the
// zero value.
//
// Records and map values are stored as the kernel wrote them, in the layout of
// bpf/abi.h. The header has the number of that layout ([Header.ABI]) and the sizes of its
// structures ([Header.Shapes]). The present decoder decodes them. Whoever changes the
// layout increments decode.ABI, and adds a function for the old number to the upgrades of
// package session, which turns an old payload into a new one. Without such a function the
// tape is refused, and is recorded anew.
package tape
