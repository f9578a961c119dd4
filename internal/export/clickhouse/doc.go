// Package clickhouse copies recordings to a ClickHouse cluster over plain HTTP: calls, sums by 10
// seconds, causes, labels, requests to servers, and reads of inference servers' metrics.
//
// The recording is the queue. [Copy] reads a session and sends what the cluster lacks; [Follow]
// does so during the recording. Blocks of rows never cross a multiple of 65,536 calls, and neither
// do segments. Each block belongs to one shard, and the same bytes are sent again until a server
// confirms them. So a replicated table accepts a block once, whichever replica receives it and
// however often an answer is lost. Before sending calls of a part that a cluster already has, the
// package queries which ones. The rows of other tables are told apart by their sort keys. So no row is lost or doubled while the recording exists; calls that
// were removed before they could be sent are counted.
//
// One block is in memory at a time. The tracer calls nothing here. The cluster's operator creates
// the tables ([DDL]). The package reads bounded answers, and reveals only an address's host.
package clickhouse
