// Package export writes the calls of recordings for other programs: as Parquet, as
// CSV, and as a SQLite file of plain rows; and as timelines: a trace of Perfetto, or JSON
// of the Trace Event Format. Calls are written as they are read, so memory does not grow
// with their number.
//
// What is not known of a call is NULL (CSV: empty), never 0. The package decides
// nothing about files: its callers, the commands, make and name them.
package export
