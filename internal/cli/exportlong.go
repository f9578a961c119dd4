package cli

const exportLong = `export writes every call that was recorded, or those that are asked for, one row a call:
what it was, when, how long, and where its time went, in the call and in the gap before
it. What is not known is NULL (CSV: empty), never 0. Times are Unix nanoseconds.

Parquet is small and quick to read: DuckDB, pandas, Polars and Spark do. SQLite is one
file for the sqlite3 shell, with the table events and those of sessions, processes,
operations and chains; numbers of 64 bits without a sign have one there.

pprof and folded are of stacks: from which functions and lines the time went, for go tool
pprof, speedscope and flame graphs. A profile has wall time, time waiting for the GPU, time
waiting for a CPU, calls, launches and the GPU memory that is held; folded lines have one of
them (--value). Stacks are sampled unless the trace had --stack=all: numbers are estimates.

perfetto is a timeline for ui.perfetto.dev: each thread's calls, the gaps between them and
what it waited for in both, at their true places (waits of 20 us or more; the figures of
each call have the rest), arrows from launches to the synchronise that waited for them,
memory and GPUs as counters, and what cost time as instants. A name that ends in .json
makes it JSON, for chrome://tracing too, as --format chrome-json does.

clickhouse copies calls, sums and causes to a cluster, those that it does not have: it can
be ended and run again, as often as one likes (docs/guides/clickhouse.md).

With --nodes it first copies what other machines have recorded, from their ingero dashboard,
and writes it all, machine by machine: databases up to 1 GiB each (docs/guides/fleet.md).

The file is there once it is whole. What could not be read is told on standard error.`

const exportExample = `  ingero export -o calls.parquet
  ingero export -o calls.csv --since 1h --pid 4821
  ingero export -o syncs.sqlite --op cudaStreamSynchronize,cudaDeviceSynchronize
  ingero export -o calls.pb.gz && go tool pprof -http :8080 calls.pb.gz
  ingero export -o gpu.folded --value gpu-wait
  ingero export -o job.perfetto-trace --since 10m
  ingero export -o job.json --format perfetto --nodes gpu-1:8080,gpu-2:8080 --token-file token
  ingero export --format clickhouse -o http://ch-1:8123,http://ch-2:8123
  ingero export --format csv -o - --from 15:40 --to 15:41 | head`
