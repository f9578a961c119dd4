// Package query is the read model: it answers typed questions about what a
// database holds, and is the only reader of it. It works beside a writer and
// never stops one.
//
// How many calls there were [Reader.Counts] says, of a whole session and of a part of one: the
// kernel's own counts, from a tick to a tick. Durations, and answers about
// single calls, are from records; an answer says which it is and how far it goes. Waits and the accounts of
// threads are read from the log, chains as they were stored. [Reader.SQL] answers what
// has no type: a statement has a connection of its own, which can only read, and
// bounds on its time, memory and rows. The package renders
// nothing; package explain does. Its callers are the commands.
package query
