// Package store keeps recordings. A database is a SQLite file, and beside it the directory <file>.d
// with each session's log, in segments. [DB] writes both; it is a session's sink.
//
// A segment has every call and wait, and each tick with the threads' accounts. Package segment
// describes the files; package log describes their frames and checksums. A log alone is a complete
// recording, except for where the time went and why: a replay computes that again.
//
// # The catalog
//
// The SQLite file has small, valuable data: sessions, processes, libraries, exact counts,
// distributions, chains, rollups. The database keeps chains for queries after the log was deleted.
// The files in migrations define the tables; they are applied in order and never change.
// PRAGMA user_version is the number of applied migrations, and PRAGMA application_id marks the file
// as ours. A newer ingero's file is left unchanged. docs/reference/schema.md describes the tables.
// Histograms are blobs in the form that a segment's ticks have, sketches in that of package stats.
// SQLite's write-ahead log protects the file after a crash. If the file is lost, it is restored
// from the sessions' segments ([Restore]).
//
// # Parts
//
// Each part imports only those above it in this list:
//
//   - log has the frames of a file, and segment has what the frames mean, sealing and replay.
//   - retention has the limits of age and size: which segments and rows a recording deletes, in
//     which order.
//   - store is the catalog. A [DB] records a session and asks retention after each tick. A [Held] is
//     a database that this process has locked: it creates, opens, renames and deletes files, and
//     trusts nothing that another user could have put there.
//   - maintain verifies, repairs, prunes and merges databases that no process records to.
//
// The catalog itself deletes the reserve of disk space, and an unsealed segment once its sealed form
// is complete. Of rows it deletes what a later tick revises, and expired silences.
//
// The package neither renders nor answers questions: package query does. Commands open databases,
// and query reads logs.
package store
