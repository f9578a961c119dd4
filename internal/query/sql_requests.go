package query

import (
	"hash/maphash"
	"slices"
	"time"

	"modernc.org/sqlite/vtab"

	"ingero/internal/tick"
)

// requestBatch is a tick's requests.
type requestBatch struct {
	session  *Session
	requests []tick.Request
}

func (b *requestBatch) count() int { return len(b.requests) }

func (b *requestBatch) at(row, column int) vtab.Value {
	return requestColumns[column].table(b.session, &b.requests[row])
}

func (b *requestBatch) id(row int, seed maphash.Seed) uint64 {
	return maphash.Comparable(seed, struct {
		session string
		request tick.Request
	}{b.session.ID, b.requests[row]})
}

// requestColumn is a column of requests, with its value's function.
type requestColumn = derived[func(s *Session, x *tick.Request) vtab.Value]

// requestsTable has one row per request.
var requestsTable = &virtual{
	SQLTable: SQLTable{Name: "requests", Columns: declared(requestColumns),
		About: "Every measured HTTP request to a server on the machine, and its response. Times are ns since the arrival; NULL: it has not happened, or is not known. The to_first columns divide the time from read_whole_ns to first_ns by what the server's engine did, the after columns that from first_ns to last_ns; NULL: not known. Of each, the first six add up to the interval, the last five to prompts, own_prompt, tokens and steps. A query reads the logs: limit it by timestamp, session or pid if you can."},
	equal: []string{"session", "node", "pid"}, ranges: []string{"timestamp"},
	scan: scanRequests,
}

// scanRequests yields the matching requests, session by session, in the order in which they ended.
func scanRequests(s *statement, a *scanRequest, yield func(batch) bool) error {
	sessions, f, err := s.chosen(a)
	if err != nil {
		return err
	}
	more := true
	for i := 0; i < len(sessions) && more; i++ {
		b := &requestBatch{session: &sessions[i]}
		cover, err := s.r.Requests(s.ctx, b.session, f, time.Time{}, func(_ time.Time, list []tick.Request) bool {
			b.requests = list
			more = yield(b)
			return more
		})
		s.note(cover)
		if err != nil && !s.unread(b.session.ID, err) {
			return err
		}
	}
	return nil
}

// RequestColumns returns the columns of the table requests.
func RequestColumns() []SQLColumn { return declared(requestColumns) }

// AppendRequest appends a request's values in the order of [RequestColumns]: nil, int64 or string.
func AppendRequest(dst []any, s *Session, x *tick.Request) []any {
	for i := range requestColumns {
		dst = append(dst, requestColumns[i].table(s, x))
	}
	return dst
}

// truth returns 1 or 0.
func truth(v bool) vtab.Value {
	if v {
		return int64(1)
	}
	return int64(0)
}

// ns returns a time since a request's arrival, NULL if it is unknown.
func ns(d time.Duration) vtab.Value {
	if d < 0 {
		return nil
	}
	return int64(d)
}

// requestColumns are the columns of requests.
var requestColumns = slices.Concat([]requestColumn{
	{SQLColumn{"node", "TEXT", "machine that made the recording"},
		func(s *Session, _ *tick.Request) vtab.Value { return s.Node }},
	{SQLColumn{"session", "TEXT", "recording: sessions.uid"},
		func(s *Session, _ *tick.Request) vtab.Value { return s.ID }},
	{SQLColumn{"timestamp", "INTEGER", "arrival of the request's first bytes, Unix ns"},
		func(_ *Session, x *tick.Request) vtab.Value { return x.Arrived }},
	{SQLColumn{"pid", "INTEGER", "process of the server"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.PID) }},
	{SQLColumn{"tid", "INTEGER", "thread that read the request"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.TID) }},
	{SQLColumn{"port", "INTEGER", "port of the server"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Port) }},
	{SQLColumn{"peer", "TEXT", "address and port of the client"},
		func(_ *Session, x *tick.Request) vtab.Value { return x.Peer.String() }},
	{SQLColumn{"post", "INTEGER", "1 if the method is POST, else 0"},
		func(_ *Session, x *tick.Request) vtab.Value { return truth(x.Post) }},
	{SQLColumn{"status", "INTEGER", "HTTP status of the response; NULL if there is none"},
		func(_ *Session, x *tick.Request) vtab.Value { return number(int64(x.Status)) }},
	{SQLColumn{"read_ns", "INTEGER", "the server read the first bytes"},
		func(_ *Session, x *tick.Request) vtab.Value { return ns(x.Read) }},
	{SQLColumn{"read_whole_ns", "INTEGER", "the server read the last bytes"},
		func(_ *Session, x *tick.Request) vtab.Value { return ns(x.Whole) }},
	{SQLColumn{"head_ns", "INTEGER", "first byte of the response"},
		func(_ *Session, x *tick.Request) vtab.Value { return ns(x.Head) }},
	{SQLColumn{"first_ns", "INTEGER", "first byte of the response's body"},
		func(_ *Session, x *tick.Request) vtab.Value { return ns(x.First) }},
	{SQLColumn{"last_ns", "INTEGER", "last byte of the response"},
		func(_ *Session, x *tick.Request) vtab.Value { return ns(x.Last) }},
	{SQLColumn{"between_ns", "INTEGER", "mean time between two events; NULL if there are fewer than two"},
		func(_ *Session, x *tick.Request) vtab.Value {
			if d, ok := x.Between(); ok {
				return int64(d)
			}
			return nil
		}},
	{SQLColumn{"longest_gap_ns", "INTEGER", "longest time between two sends of the body"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Gap) }},
	{SQLColumn{"events", "INTEGER", "sends of the body, usually one for each token of a stream"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Events) }},
	{SQLColumn{"received_bytes", "INTEGER", "bytes of the request"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Received) }},
	{SQLColumn{"sent_bytes", "INTEGER", "bytes of the response"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Sent) }},
	{SQLColumn{"sends_refused", "INTEGER", "sends that failed because the socket's buffer was full"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Refused) }},
	{SQLColumn{"unread_bytes", "INTEGER", "most bytes that the client had not acknowledged: the client reads slowly"},
		func(_ *Session, x *tick.Request) vtab.Value { return int64(x.Unread) }},
	{SQLColumn{"round_trip_ns", "INTEGER", "round-trip time of the connection, ns; NULL if unknown"},
		func(_ *Session, x *tick.Request) vtab.Value { return number(int64(x.RoundTrip)) }},
	{SQLColumn{"ended", "TEXT", "how the end is known: 'last chunk', 'next request', 'closed', or 'open' if it is not"},
		func(_ *Session, x *tick.Request) vtab.Value { return x.End.String() }},
	{SQLColumn{"engine_pid", "INTEGER", "process of the thread that computed the request; NULL if unknown"},
		func(_ *Session, x *tick.Request) vtab.Value { return number(int64(x.EnginePID)) }},
	{SQLColumn{"engine_tid", "INTEGER", "thread that computed the request: events.tid has its calls; NULL if unknown"},
		func(_ *Session, x *tick.Request) vtab.Value { return number(int64(x.EngineTID)) }},
}, splitColumns("to_first", func(x *tick.Request) *tick.RequestTime { return &x.ToFirst }),
	splitColumns("after", func(x *tick.Request) *tick.RequestTime { return &x.After }))

// splitColumns returns the columns of an interval that is divided.
func splitColumns(prefix string, of func(*tick.Request) *tick.RequestTime) (out []requestColumn) {
	for _, p := range []struct {
		name, about string
		value       func(*tick.RequestTime) time.Duration
	}{
		{"server", "the engine waited for work: the server prepared or handed over the request", func(p *tick.RequestTime) time.Duration { return p.Idle }},
		{"prompts", "the engine computed prompts of other requests", func(p *tick.RequestTime) time.Duration { return p.Prompts }},
		{"own_prompt", "it computed the request's own prompt", func(p *tick.RequestTime) time.Duration { return p.Own }},
		{"tokens", "it computed tokens", func(p *tick.RequestTime) time.Duration { return p.Tokens }},
		{"steps", "it computed prompts or tokens: it launches no graph, which would tell them apart", func(p *tick.RequestTime) time.Duration { return p.Steps }},
		{"deliver", "from the end of the last of these steps to the byte", func(p *tick.RequestTime) time.Duration { return p.Deliver }},
		{"gpu", "part of the engine's steps: waiting for the GPU", func(p *tick.RequestTime) time.Duration { return p.GPU }},
		{"cpu", "on a CPU, or waited for a scheduler's process that was", func(p *tick.RequestTime) time.Duration { return p.CPU }},
		{"runnable", "waiting for a CPU", func(p *tick.RequestTime) time.Duration { return p.Runnable }},
		{"blocked", "blocked otherwise", func(p *tick.RequestTime) time.Duration { return p.Blocked }},
		{"unknown", "unknown", func(p *tick.RequestTime) time.Duration { return p.Unknown }},
	} {
		out = append(out, requestColumn{SQLColumn{prefix + "_" + p.name + "_ns", "INTEGER", p.about}, func(_ *Session, x *tick.Request) vtab.Value {
			if !x.Split {
				return nil
			}
			return int64(p.value(of(x)))
		}})
	}
	return out
}
