// Package retention decides what a recording deletes: segments, and rows of the SQLite file. The
// DB that records calls it after each tick and before each write. It is below package store, and
// needs only the directory, the SQLite connection and the limits: nothing has to be registered.
//
// # Files
//
// [Segments] are the finished segments in the directory. [Segments.Free] deletes the oldest ones
// first: those whose last write exceeds the maximum age, and then as many as the limit of all
// files demands. The segment being written is never deleted. [Segments.DeleteLeftovers] deletes
// what killed writers left: incomplete files, and unsealed segments whose sealed form exists.
//
// # Rows
//
// [Rows.Trim] deletes rows, a few in each tick:
//
//   - Rollups and rows of counted that a coarser tier covers, once they exceed the time of their
//     tier. When the rows take more than a tenth of the limit, the oldest rows of the finest tier
//     are deleted earlier.
//   - Rows of accounts and host_sums after a fixed time. Minutes of losses become hours.
//   - When the rows take more than half of the limit, the oldest rows of all recordings, in the
//     order of the table in forget.go. Rows of the last minute stay.
//
// Sessions, libraries, reports, drops and losses are never deleted, nor are the processes that lost
// time. If a pid is reused, [Reused] deletes the earlier process's rows that have no time.
package retention
