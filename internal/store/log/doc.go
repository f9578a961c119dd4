// Package log is an append-only file of frames, each with a checksum. [Writer] appends, [Reader]
// reads in order, from the start or from the offset of any frame. The package does not know what
// the frames mean: package segment does.
//
// # File format
//
// A file is [Magic], whose last byte is the version of this format, and then frames. A frame is a
// head of 16 bytes, little endian, and a body:
//
//	0  u32 length of the body, at most 16 MiB
//	4  u8  kind, never 0
//	5  u8  version of the kind's body
//	6  u16 zero
//	8  u32 CRC32C of the body
//	12 u32 CRC32C of the 12 bytes before
//
// The head's own checksum distinguishes a truncated frame from a damaged length.
//
// # Truncation and damage
//
// A writer that is killed leaves a file that may end anywhere. What follows its last whole frame is
// torn: it was never acknowledged, and a reader ends before it. Zeros in place of a head are
// space that was reserved and never written: the file ends there too. [CompleteBytes] finds that
// end.
//
// A frame whose body has another checksum is damaged; [Reader.Next] reports [ErrCorrupt] and
// continues with the next frame. A head with another checksum leaves the position of the next frame
// unknown; the reader reports [ErrCorrupt] and goes to the end. [Resync] finds the next whole frame,
// for a repair.
//
// A writer whose write fails truncates the file to its last whole frame. Write does not sync: the
// owner of the file decides how often that is worth its cost.
package log
