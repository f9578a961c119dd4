// Package query answers typed questions about a database, and is the only reader of it. It works
// beside a writer and never stops one.
//
// [Reader.Counts] returns how many calls there were, in a whole session or a part of it: the
// kernel's own counts, from a tick to a tick. Durations and answers about single calls come from
// records. An answer names its source, and says how complete it is. Waits and threads' accounts come from
// the log, chains are read as stored. [Reader.SQL] answers all other questions: a statement has its
// own read-only connection, with bounds on its time, memory and rows. Package explain renders the
// answers. The callers are the commands.
package query
