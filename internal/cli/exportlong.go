package cli

const exportLong = `export writes all recorded calls, or the selected ones, one row per call: the operation,
its time and duration, and where the time went, in the call and in the gap before it.
Unknown values are NULL (CSV: empty), never 0. Times are Unix nanoseconds.

Parquet is small and fast to read with DuckDB, pandas, Polars and Spark. SQLite is one
file for the sqlite3 shell, with the tables events, sessions, processes, operations and
chains. It stores unsigned 64-bit numbers as signed ones.

pprof and folded export stacks: the functions and lines that took the time, for go tool
pprof, speedscope and flame graphs. A profile contains wall time, GPU wait, time waiting
for a CPU, calls, launches and held GPU memory; folded lines contain one of them (--value).
Stacks are sampled unless the trace used --stack=all, so the numbers are estimates.

perfetto writes a timeline for ui.perfetto.dev: the calls of each thread, the gaps between
calls, and the waits in both (waits of 20 us or more; each call's figures include the
rest). Arrows lead from launches to the synchronize call that waited for them; memory and
GPUs are counters, and causes of lost time are instants. An output name that ends in .json
selects JSON, which chrome://tracing also reads, like --format chrome-json.

clickhouse copies the calls, sums, causes, labels, requests to servers and metrics of
inference servers that a cluster does not have yet. You can stop and restart it at any time
(docs/guides/clickhouse.md).

With --nodes, export first copies the recordings of other nodes from their ingero
dashboard, then writes them node by node: databases of up to 1 GiB each
(docs/guides/fleet.md).

The output file appears when it is complete. export reports unreadable data on standard
error.`

const exportExample = `  ingero export -o calls.parquet
  ingero export -o calls.csv --since 1h --pid 4821
  ingero export -o syncs.sqlite --op cudaStreamSynchronize,cudaDeviceSynchronize
  ingero export -o calls.pb.gz && go tool pprof -http :8080 calls.pb.gz
  ingero export -o gpu.folded --value gpu-wait
  ingero export -o job.perfetto-trace --since 10m
  ingero export -o job.json --format perfetto --nodes gpu-1:8080,gpu-2:8080 --token-file token
  ingero export --format clickhouse -o http://ch-1:8123,http://ch-2:8123
  ingero export --format csv -o - --from 15:40 --to 15:41 | head`
