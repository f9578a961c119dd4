// Package segment encodes and decodes a session's log: calls, waits, ticks, names and stacks. It
// knows nothing of the database that lists the sessions. [Writer] writes, [Log] reads one segment or
// a session's segments in order, [Replay] makes a log a source of a session. [Checker] finds damage,
// [Rewrite] copies what is readable.
//
// # Files
//
// A session's log is cut into segments. Each is a file in the format of package log and can be read
// alone: it begins with the session and repeats everything that later frames refer to. The current
// one is SESSION-NNNNNN.ilog, its number in decimal. A full one is sealed by [Seal]: packed tighter,
// with an index at its end, under the name SESSION-NNNNNN.iseg. If both exist, a crash came between,
// and the sealed one is complete. Logs of the first version are SESSION.ilog.
//
// An unsealed segment may be torn: the process was killed, and everything before is intact. A sealed
// one must be whole; a missing end is damage. See package log for checksums and for frames that were
// damaged.
//
// # Frames
//
// kinds.go numbers the kinds of frames and lists the versions of their bodies. A body is written in
// the earliest version that can hold its content. A reader skips unknown kinds, and reports a newer
// version of a known kind as log.ErrVersion. Bodies are either JSON (the session, processes,
// libraries, reports, GPUs, faults, the end) or columns. Integers are varints of 7 bits a byte, the
// lowest first; signed ones alternate in sign (0, -1, 1, -2, ...); floats are 8 bytes, little endian.
//
// A column is a codec (0 raw, 1 zstd), the length of its values, the packed length if it is packed,
// and the bytes. Columns of fewer than 128 bytes are raw.
//
//   - Calls (columns.go): the number of calls, the times between which they lie, then the columns.
//     The fields in which few calls differ are written once a frame, as a shape. Times and arguments
//     are differences from the previous call.
//   - Waits (waits.go): the same, by end. A frame of waits directly precedes the frame of the calls
//     between which they came.
//   - Ticks (entries.go, threads.go): counts and histograms of the operations that changed, and the
//     changes of threads' accounts. A final tick is complete.
//   - Names, stacks, ranges, host sums, facts, batch sizes: one file each.
//
// # Sealed segments
//
// Sealing merges small frames of calls and waits into large ones. A frame of marks before them says
// how they interleave with the other frames. The last frame is the index: the offset, number and
// times of each frame of calls. A tail of 16 bytes has the index's offset and its checksum. If
// either is damaged, the segment is read as an unsealed one.
package segment
