package main

import (
	"fmt"
	"strings"

	"ingero/internal/dashboard"
)

const apiHead = `# The HTTP read API

<!-- Generated from internal/dashboard by make docs. -->

For people who write a program that reads recordings. ` + "`ingero dashboard`" + ` serves this API: JSON over HTTPS, also
while a trace records. The API is read-only. ` + "`ingero query, explain and export --nodes`" + ` use it to query several nodes ([fleet.md](../guides/fleet.md)).

    ingero dashboard                                           # https://127.0.0.1:8080, this machine only
    ingero dashboard --addr 0.0.0.0:8080 --token-file token    # other machines, which must send the bearer token
    curl -k https://127.0.0.1:8080/api/v1/ops?since=5m
    curl -k -H 'Content-Type: application/json' -d '{"sql":"SELECT op, count(*) FROM events GROUP BY op"}' https://127.0.0.1:8080/api/v1/query

| path | default time | answer |
|---|---|---|
`

const apiTail = `
## Parameters

Each GET path accepts the parameters that apply to it. The server refuses unknown parameters.

| parameter | selects |
|---|---|
| ` + "`since`" + ` | the time up to now: the last 5m, 1h30m, 2d |
| ` + "`from`" + `, ` + "`to`" + ` | the time from ` + "`from`" + ` (inclusive) to ` + "`to`" + ` (exclusive): RFC 3339, or Unix seconds, milliseconds, microseconds or nanoseconds |
| ` + "`pid`" + `, ` + "`op`" + ` | processes, operations: a comma-separated list |
| ` + "`node`" + `, ` + "`session`" + ` | recordings of one machine, or one recording by its ID |
| ` + "`pod`" + `, ` + "`namespace`" + `, ` + "`container`" + `, ` + "`cgroup`" + `, ` + "`job`" + ` | processes by where they run ([where.md](where.md)) |

Without a time range, an answer covers the end of the latest recording, for the default time.
With ` + "`since`" + `, it covers the time until now. Times in answers are in UTC, durations
in nanoseconds, sizes in bytes. Unknown values are absent or null, never 0. [schema.json](schema.json) is the
JSON schema of all answers, and of what commands print with ` + "`--json`" + `. Later versions may add members to an object.

If an answer divides time into buckets, they begin at ` + "`start_ms`" + ` and are ` + "`bucket_ms`" + ` long.
All fields that end in ` + "`_ms`" + ` are in milliseconds, times in Unix milliseconds. Unknown values of a bucket are null.

` + "`/api/v1/updates`" + ` is a stream of server-sent events. It begins with ` + "`hello`" + `, which has the state.
` + "`data`" + ` follows after new records (at most once a second), ` + "`chain`" + ` when a cause
` + "`appeared`" + `, ` + "`changed`" + ` or ` + "`ended`" + `, and ` + "`end`" + ` when the server stops. Events announce new data and
do not contain all of it: a slow client misses some events.

In the rows of ` + "`/api/v1/query`" + `, a float has a point or an exponent, and bytes are
` + "`{\"hex\": \"00ff\"}`" + `. ` + "`cut`" + ` says why rows were left out. For the limits of a statement, see
[schema.md](schema.md).

## Errors

An error is ` + "`{\"error\": what, \"do\": what to do}`" + ` with a status.

| status | meaning |
|---|---|
| 400 | a parameter or the statement is invalid |
| 401 | the bearer token is missing or wrong: ` + "`Authorization: Bearer TOKEN`" + ` |
| 403 | the Host is not a name of the server, or the request comes from a page of another site |
| 404 | the path does not exist, or nothing was recorded in that time |
| 405, 413, 415 | unsupported method, size (64 KiB; a database of 1 GiB) or content type of the request |
| 422 | the query timed out: after 10 s for a statement unless it sets another limit (30 s at most), 30 s for other paths, 10 minutes for a copy |
| 500 | the database is damaged or cannot be read |
| 503 | the server already answers four requests, sends a copy, or has 32 clients of updates |

## Access

- ` + "`--addr :8080`" + ` listens on this machine only. To listen on other addresses, the server requires
  a token of 16 characters or more; without a token it does not start.
- The server requires TLS 1.3. Without ` + "`--tls-cert`" + ` and ` + "`--tls-key`" + ` it signs its own certificate, for
  24 hours, and then renews it. The key stays (` + "`~/.ingero/dashboard.key`" + `, for root
  ` + "`/var/lib/ingero/dashboard.key`" + `), so the fingerprint printed at start stays the same.
- The Host of a request must be an address of the port, a loopback name, a name of
  ` + "`--allow-host`" + `, or, with the token, a name of the certificate. So a DNS name that points
  to 127.0.0.1 cannot read data through a browser on this machine (DNS rebinding).
- A request that names the page it comes from (Origin, Sec-Fetch-Site) must come from a page of this
  server. Statements must be sent as ` + "`application/json`" + `, which a form on another site cannot send.
- The page itself, / and /assets/, contains no data: it needs no token, and other sites may link
  to it. The page queries the API with the token, which it receives once.
- The server accepts at most 128 connections, 64 from one address. For a new connection it closes an idle
  one. A request header must arrive within 10 s and have at most 16 KiB.
`

// api renders the paths of the read API.
func api() string {
	var b strings.Builder
	b.WriteString(apiHead)
	for i := range dashboard.Paths {
		p := &dashboard.Paths[i]
		about := p.About
		if p.Params != "" {
			about += ". " + p.Params
		}
		fmt.Fprintf(&b, "| %s %s | %s | %s |\n", p.Method, p.Path, p.Window, strings.ReplaceAll(about, "|", `\|`))
	}
	b.WriteString(apiTail)
	return b.String()
}
