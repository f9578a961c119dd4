// Package export writes recorded calls for other programs: as Parquet, as CSV, and as a SQLite file
// of plain rows; and as timelines: a Perfetto trace, or JSON of the Trace Event Format. It writes
// calls as it reads them, so memory does not grow with their number.
//
// An unknown value of a call is NULL (CSV: empty), never 0. The callers, the commands, create and
// name the files.
package export
