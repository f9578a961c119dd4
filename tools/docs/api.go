package main

import (
	"fmt"
	"strings"

	"ingero/internal/dashboard"
)

const apiHead = `# The HTTP read API

<!-- Generated from internal/dashboard by make docs. -->

` + "`ingero dashboard`" + ` serves it: JSON over HTTPS, also while a trace records. Nothing of it
changes anything. ` + "`ingero query, explain and export --nodes`" + ` ask it of several machines ([fleet.md](../guides/fleet.md)).

    ingero dashboard                                           # https://127.0.0.1:8080, this machine only
    ingero dashboard --addr 0.0.0.0:8080 --token-file token    # other machines, who must have the token
    curl -k https://127.0.0.1:8080/api/v1/ops?since=5m
    curl -k -H 'Content-Type: application/json' -d '{"sql":"SELECT op, count(*) FROM events GROUP BY op"}' https://127.0.0.1:8080/api/v1/query

| path | default time | answer |
|---|---|---|
`

const apiTail = `
## Parameters

All paths that are asked by GET take those that make sense for them; one that does not
exist is refused.

| parameter | |
|---|---|
| ` + "`since`" + ` | the last time so long: 5m, 1h30m, 2d |
| ` + "`from`, `to`" + ` | from one time on, before another: RFC 3339, Unix seconds or nanoseconds |
| ` + "`pid`, `op`" + ` | processes, operations: several with commas between |
| ` + "`node`, `session`" + ` | of recordings: of one machine, or one by its ID |
| ` + "`pod`, `namespace`, `container`, `cgroup`, `job`" + ` | processes by where they run ([where.md](where.md)) |

Without a time it is about the end of the latest recording, as long as the default time;
with ` + "`since`" + ` about the last time until now. Times in answers are in UTC, durations
nanoseconds, sizes bytes; what is not known is absent or null, never 0.

Where time is cut into buckets they begin at ` + "`start_ms`" + ` and are ` + "`bucket_ms`" + ` long: in
milliseconds, Unix ones, as all that ends in ` + "`_ms`" + `. What is not known of a bucket is null.

` + "`/api/v1/updates`" + ` is a stream of server-sent events, for as long as one listens: ` + "`hello`" + ` with
the state, ` + "`data`" + ` when more was recorded (at most one a second), ` + "`chain`" + ` when a cause
` + "`appeared`" + `, ` + "`changed`" + ` or ` + "`ended`" + `, and ` + "`end`" + ` when the server does. They say that there
is news, not all of it: who reads slowly misses some.

In the rows of ` + "`/api/v1/query`" + ` a float has a point or an exponent, bytes are
` + "`{\"hex\": \"00ff\"}`" + `, and ` + "`cut`" + ` says why there are no more. What a statement may take is in
[schema.md](schema.md).

## Refusals

A refusal is ` + "`{\"error\": what, \"do\": what to do}`" + ` with a status.

| status | |
|---|---|
| 400 | a parameter or the statement is wrong |
| 401 | the token is missing or another: ` + "`Authorization: Bearer TOKEN`" + ` |
| 403 | the Host is no name of the server, or the request comes from another site's page |
| 404 | there is no such path, or nothing was recorded in that time |
| 405, 413, 415 | the method, the size (64 KiB; a database of 1 GiB) or the kind of the request |
| 422 | the answer took too long: 10 s for a statement unless it says more (30 s at most), 30 s else, 10 minutes for a copy |
| 500 | the database is damaged, or cannot be read |
| 503 | four other questions are being answered, a copy is being sent, or 32 listen to updates |

## Who may ask

- ` + "`--addr :8080`" + ` is for this machine alone. Where others can reach it, it needs a token of 16
  characters or more; it does not start without.
- TLS 1.3. Without ` + "`--tls-cert` and `--tls-key`" + ` it signs a certificate itself, for 24 hours, and
  then the next. The key stays (` + "`~/.ingero/dashboard.key`, of root `/var/lib/ingero/dashboard.key`" + `), so
  that the fingerprint that it prints at its start is the same next time.
- The Host of a request must be an address of the port, a loopback name, a name of
  ` + "`--allow-host`" + `, or, with the token, a name of the certificate. So a name that somebody turns
  to 127.0.0.1 gets nothing out of a browser on this machine.
- A request that says from which page it comes (Origin, Sec-Fetch-Site) must come from the
  server's own. Statements must come as ` + "`application/json`" + `, which a form of another site cannot send.
- The page itself, / and /assets/, has no data in it: it needs no token, and a link on another
  site may lead to it. It asks the API with the token, which it is given once.
- No more than 128 clients at once, 64 of one address: for the next one a connection is closed on
  which nothing is asked. A head must be there within 10 s and have 16 KiB at most.
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
