package clickhouse

import (
	"fmt"
	"strings"

	"ingero/internal/export"
)

// table is a table that is written to.
type table struct {
	name    string
	about   string
	columns []export.Column
	order   string
	shard   string // expression for a row's shard
	version string // version column of rows that are written again; empty: none are
	at      string // expression of seconds since the epoch
}

// blockCalls is how many call numbers a part of a session has; a block lies in one part.
const blockCalls = 1 << 16

// tables are all tables.
var tables = []table{
	{name: "calls", about: "One row per call; session and number are unique together.",
		columns: export.BinaryColumns(), order: "session, number", shard: fmt.Sprintf("cityHash64(session, intDiv(number, %d))", blockCalls),
		at: "intDiv(timestamp, 1000000000)"},
	{name: "rollups", about: "Sums over 10 seconds, by process and operation. The buckets are a histogram of durations: add them with sumMap.",
		columns: []export.Column{{Name: "session", Type: "String"}, {Name: "node", Type: "String"}, {Name: "start", Type: "UInt32"}, {Name: "pid", Type: "UInt32"}, {Name: "op", Type: "String"},
			{Name: "calls", Type: "UInt64"}, {Name: "done", Type: "UInt64"}, {Name: "errors", Type: "UInt64"}, {Name: "total_ns", Type: "UInt64"},
			{Name: "oncpu_ns", Type: "UInt64"}, {Name: "runnable_ns", Type: "UInt64"}, {Name: "throttled_ns", Type: "UInt64"}, {Name: "blocked_ns", Type: "UInt64"},
			{Name: "p50_ns", Type: "Int64"}, {Name: "p99_ns", Type: "Int64"}, {Name: "max_ns", Type: "Int64"}, {Name: "bucket_ns", Type: "Array(Int64)"}, {Name: "bucket_calls", Type: "Array(UInt64)"}},
		order: "session, start, pid, op", shard: "cityHash64(session)", version: "calls", at: "start"},
	{name: "chains", about: "Causes of lost time, in their latest state.",
		columns: []export.Column{{Name: "session", Type: "String"}, {Name: "node", Type: "String"}, {Name: "id", Type: "String"}, {Name: "version", Type: "UInt64"}, {Name: "rule", Type: "String"}, {Name: "severity", Type: "String"},
			{Name: "pid", Type: "UInt32"}, {Name: "tid", Type: "UInt32"}, {Name: "op", Type: "String"}, {Name: "from_ns", Type: "Int64"}, {Name: "to_ns", Type: "Int64"},
			{Name: "lost_ns", Type: "Int64"}, {Name: "confidence", Type: "Float64"}, {Name: "culprit", Type: "String"}, {Name: "baseline", Type: "String"}},
		order: "session, id", shard: "cityHash64(session)", version: "version", at: "intDiv(from_ns, 1000000000)"},
	{name: "requests", about: "HTTP requests to servers, with the columns of the table requests in SQL.",
		columns: requestColumns(), order: "session, timestamp, pid, port, peer", shard: "cityHash64(session)", at: "intDiv(timestamp, 1000000000)"},
	{name: "inference", about: "Reads of inference servers' metrics. Durations are in seconds; their buckets are a histogram, by upper bounds.",
		columns: inferenceColumns(), order: "session, time_ns, pid, url", shard: "cityHash64(session)", at: "intDiv(time_ns, 1000000000)"},
	{name: "labels", about: "Periods in which a label had one value; to_ns 0: until the process or the recording ended.",
		columns: []export.Column{{Name: "session", Type: "String"}, {Name: "node", Type: "String"}, {Name: "pid", Type: "UInt32"}, {Name: "tid", Type: "UInt32"},
			{Name: "key", Type: "String"}, {Name: "from_ns", Type: "Int64"}, {Name: "value", Type: "String"}, {Name: "to_ns", Type: "UInt64"}},
		order: "session, from_ns, pid, tid, key", shard: "cityHash64(session)", version: "to_ns", at: "intDiv(from_ns, 1000000000)"},
}

func tableNamed(name string) *table {
	for i := range tables {
		if tables[i].name == name {
			return &tables[i]
		}
	}
	return nil
}

// names returns the columns for a statement.
func (t *table) names() string {
	out := make([]string, len(t.columns))
	for i, c := range t.columns {
		out[i] = c.Name
	}
	return strings.Join(out, ", ")
}

// DDL returns the statements that create the tables; run them on every server of a cluster. Each
// server's macros set its shard and replica, and the cluster must be named ingero in its
// configuration. modern is for ClickHouse 22.8 and later, otherwise 18.16 and later.
func DDL(modern bool) []string {
	out := []string{"CREATE DATABASE IF NOT EXISTS ingero"}
	for i := range tables {
		out = append(out, tables[i].local(modern), tables[i].distributed())
	}
	return out
}

// local returns the statement for one shard's table.
func (t *table) local(modern bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS ingero.%s_local (\n", t.name)
	for _, c := range t.columns {
		fmt.Fprintf(&b, "    %s %s,\n", c.Name, typeOf(c, modern))
	}
	fmt.Fprintf(&b, "    day Date DEFAULT toDate(toDateTime(%s, 'UTC'))\n) ENGINE = ", t.at)
	path := fmt.Sprintf("'/clickhouse/tables/{shard}/ingero/%s', '{replica}'", t.name)
	if t.version != "" {
		path += ", " + t.version
	}
	fmt.Fprintf(&b, "ReplicatedReplacingMergeTree(%s)", path)
	fmt.Fprintf(&b, "\nPARTITION BY day\nORDER BY (%s)", t.order)
	if modern {
		b.WriteString("\nTTL day + INTERVAL 90 DAY")
	}
	fmt.Fprintf(&b, "\nSETTINGS replicated_deduplication_window = %d", dedupWindow)
	return b.String()
}

// dedupWindow is how many recent blocks a shard remembers to dedupe.
const dedupWindow = 10_000

// lowCardinality are columns with few values, which newer servers store as numbers.
var lowCardinality = map[string]bool{"node": true, "session": true, "source": true, "op": true, "parent": true, "comm": true, "cgroup": true, "function": true,
	"container": true, "container_name": true, "pod": true, "namespace": true, "job": true, "rule": true, "severity": true, "culprit": true, "engine": true, "model": true, "key": true}

// typeOf returns a column's type. Rows are encoded the same for both.
func typeOf(c export.Column, modern bool) string {
	if modern && lowCardinality[c.Name] {
		return "LowCardinality(" + c.Type + ")"
	}
	return c.Type
}

// distributed returns the statement for the table to write to and query.
func (t *table) distributed() string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS ingero.%[1]s AS ingero.%[1]s_local\nENGINE = Distributed(ingero, ingero, %[1]s_local, %[2]s)", t.name, t.shard)
}
