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
// SQLite's write-ahead log protects the file after a crash. If the file is lost, [Repair] restores
// the sessions that have segments.
//
// # Retention and repair
//
// The oldest segments are deleted first, when they are too old or the files exceed their limit.
// Rollups, and rows of processes, go by the limits in trim.go and forget.go. [Verify] reads all
// segments. [Repair] replaces a damaged segment by its readable parts, and keeps the damaged file.
//
// The package neither renders nor answers questions: package query does. Commands open databases,
// and query reads logs.
package store
