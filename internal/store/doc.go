// Package store keeps recordings. A database is a SQLite file and, beside it, the directory
// <file>.d. The file has small, valuable data: sessions, processes, libraries, exact counts,
// distributions, chains, rollups. The directory has each session's log. A log consists of segments,
// and has every call and wait, and each tick with the threads' accounts. [DB] writes both; it is a
// session's sink.
//
// A log alone is a complete recording: [OpenSession] reads one, even if it was truncated at any
// byte, and [NewReplay] makes it a source that gives the same totals as the live session. It does
// not store where the time went and why: a replay computes that again. The database keeps chains
// for queries after the log was deleted.
//
// The package neither renders nor answers questions: package query does. Commands open databases,
// and query reads logs.
package store
