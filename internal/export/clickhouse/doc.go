// Package clickhouse copies recordings to a ClickHouse cluster over plain HTTP: calls,
// sums by 10 seconds, and causes.
//
// The recording is the queue. [Copy] reads a session and sends what the cluster does not
// have; [Follow] does so while it is recorded. Rows go in blocks that never cross a
// multiple of 65,536 calls, as segments do not; each block is of one shard, and is sent again
// byte by byte until a server says that it has it: so a replicated table takes it once,
// whichever replica takes it, and however often an answer was lost. Before it sends calls of
// a part that a cluster has already, it asks which. So a row is never lost or doubled, as
// long as the recording is there; where calls were removed before they could be sent, that is
// counted.
//
// One block is in memory at a time. Nothing here is called by the tracer. The tables are
// made by whoever runs the cluster ([DDL]); the package reads answers up to a bound and never
// says more of an address than its host.
package clickhouse
