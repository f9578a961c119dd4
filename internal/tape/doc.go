// Package tape is the file format of raw tapes: the data that a trace read from the kernel and from
// the machine, before decoding. Package session records and plays them.
//
// A file begins with a line of text, "ingero raw tape 1\n", where 1 is [Version]. A zstd stream of
// frames follows. A frame is a byte for the [Kind], the length of the payload as a uvarint, and the
// payload. The first frame is the [Header] as JSON, the last one has kind End. A tape without it is
// truncated.
//
// # Versions
//
// Version changes with the framing, so that an old reader refuses the file. A new kind of frame
// does not change the version: a player ignores kinds that it does not request, and gets the zero
// value for a requested kind that an older tape lacks.
//
// Records and map values are stored as the kernel wrote them, in the layout of bpf/abi.h. The
// header has the number of that layout ([Header.ABI]) and the sizes of its structures
// ([Header.Shapes]). The current decoder decodes them. A change of the layout must increment
// decode.ABI, and add a function for the old number to the upgrades of package session, which
// converts old payloads. Without such a function the tape is refused, and must be recorded again.
package tape
