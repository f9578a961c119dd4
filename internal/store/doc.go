// Package store keeps recordings. A database is a SQLite file of what is small
// and precious (sessions, processes, libraries, exact counts, distributions,
// chains, rollups) and, beside it, the directory <file>.d with the log of each
// session, cut into segments: every call and wait, and each tick with the accounts
// of the threads. [DB] writes both; it is a sink of a session.
//
// A log alone is a whole recording: [OpenSession] reads one, cut off at any byte,
// and [NewReplay] makes it a source again, which gives the totals that the live
// session gave. Where the time went, and why, is not in it: whoever works that
// out from a session does so from a replay. Chains are kept for those who ask
// when the log is gone.
//
// The package renders nothing and answers no questions: package query does.
// Its callers are the commands, which open it, and query, which reads logs.
package store
