// Package maintain changes and checks databases that no process records to: [Verify], [Repair],
// [Remove] and [Merge]. Commands call it, and package query for Verify and its sources. It is above
// package store: a [store.Held] opens, locks and renames a database's files, and [store.Restore]
// writes the rows of a session from its log.
//
// # Files
//
// [Repair] replaces a damaged segment by its readable parts, and the SQLite file by what the
// segments and the damaged file have. It deletes only files that a killed process left, and renames
// a file that it replaces:
//
//	NAME.bad, NAME.bad.2   a damaged segment, or the damaged SQLite file
//	NAME.rewritten         a segment being rewritten
//	.restored.part         the SQLite file in which sessions are restored
//	.NAME.part             a segment being copied by a merge
//
// An interrupted repair or merge can be run again.
//
// # Rows
//
// [Merge] replaces all rows of a session if the source has a later state, and deletes no others. Of
// the files, it deletes an unsealed segment whose sealed form it has copied. It knows the tables by
// their column session, so new tables need no code here.
//
// # Deletion
//
// [Remove] deletes segments, the oldest first: those older than a time, as many as a limit of all
// files demands, or those of a session. Only for a whole session does it delete rows too.
package maintain
