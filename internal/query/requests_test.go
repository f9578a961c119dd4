package query

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// requestsOf returns a tick's requests: one with all fields set, and one without a response.
func requestsOf(now time.Time, seq uint64) []tick.Request {
	at := now.Add(-500 * time.Millisecond).UnixNano()
	peer := netip.MustParseAddrPort("10.0.0.7:47976")
	return []tick.Request{
		{PID: 4821, TID: 4822, Port: 8000, Peer: peer, Arrived: at, Read: 10, Whole: 20, Head: 100, First: 120, Last: 320, Gap: 90, Events: 3, Received: 1000, Sent: 2000 + seq,
			Refused: 1, Unread: 7, RoundTrip: 30, Status: 200, Post: true, End: tick.ResponseChunk,
			ToFirst: tick.RequestTime{Idle: 10, Prompts: 20, Own: 30, Tokens: 15, Deliver: 25, GPU: 40, CPU: 10, Runnable: 5, Blocked: 4, Unknown: 6},
			After:   tick.RequestTime{Idle: 20, Prompts: 30, Own: 1, Tokens: 99, Deliver: 50, GPU: 70, CPU: 20, Runnable: 20, Blocked: 10, Unknown: 10},
			Split:   true, EnginePID: 4830, EngineTID: 4831},
		{PID: 4821, TID: 4822, Port: 8000, Peer: peer, Arrived: at + 1000, Read: 5, Whole: 5, Head: -1, First: -1, Last: -1},
	}
}

// A request is a row. What is unknown is NULL.
func TestRequests(t *testing.T) {
	r := sqlDB(t)
	res := ask(t, r, "SELECT * FROM requests")
	if len(res.Rows) != 16 { // two sessions of four ticks
		t.Fatalf("%d rows, want 16", len(res.Rows))
	}
	row := func(at int) map[string]any {
		out := map[string]any{}
		for i, c := range res.Columns {
			out[c] = res.Rows[at][i]
		}
		return out
	}
	at := requestsOf(began.Add(time.Second), 1)[0].Arrived
	want := map[string]any{"node": "gpu-7", "session": "s1", "timestamp": at, "pid": int64(4821), "tid": int64(4822), "port": int64(8000), "peer": "10.0.0.7:47976", "post": int64(1),
		"status": int64(200), "read_ns": int64(10), "read_whole_ns": int64(20), "head_ns": int64(100), "first_ns": int64(120), "last_ns": int64(320), "between_ns": int64(100),
		"longest_gap_ns": int64(90), "events": int64(3), "received_bytes": int64(1000), "sent_bytes": int64(2001), "sends_refused": int64(1), "unread_bytes": int64(7), "round_trip_ns": int64(30),
		"ended": "last chunk", "engine_pid": int64(4830), "engine_tid": int64(4831)}
	for i, name := range []string{"server", "prompts", "own_prompt", "tokens", "steps", "deliver", "gpu", "cpu", "runnable", "blocked", "unknown"} {
		want["to_first_"+name+"_ns"] = []int64{10, 20, 30, 15, 0, 25, 40, 10, 5, 4, 6}[i]
		want["after_"+name+"_ns"] = []int64{20, 30, 1, 99, 0, 50, 70, 20, 20, 10, 10}[i]
	}
	if d := cmp.Diff(want, row(0)); d != "" {
		t.Errorf("a request, -want +got:\n%s", d)
	}
	none := row(1)
	for name, v := range none {
		known := slices.Contains([]string{"node", "session", "timestamp", "pid", "tid", "port", "peer", "post", "read_ns", "read_whole_ns", "longest_gap_ns", "events",
			"received_bytes", "sent_bytes", "sends_refused", "unread_bytes", "ended"}, name)
		if (v != nil) != known {
			t.Errorf("%s of a request without a response is %v", name, v)
		}
	}
	if n := first(t, r, "SELECT count(*) FROM (SELECT * FROM requests LIMIT 3)")[0]; n != int64(3) {
		t.Errorf("the first 3 requests are %v", n)
	}
	if n := first(t, r, fmt.Sprintf("SELECT count(*) FROM requests WHERE timestamp = %d AND session = 's1' AND pid IN (1, 4821)", at))[0]; n != int64(1) {
		t.Errorf("%v requests arrived then", n)
	}
}

// Requests that have no tick yet are read, and a reader can stop.
func TestRequestsByTick(t *testing.T) {
	r := sqlDB(t)
	s, err := r.Session(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	var ticks []time.Time
	each := func(stop int) {
		ticks = nil
		cover, err := r.Requests(t.Context(), &s, Filter{}, time.Time{}, func(at time.Time, list []tick.Request) bool {
			if len(list) != 2 {
				t.Errorf("%d requests in a tick, want 2", len(list))
			}
			ticks = append(ticks, at)
			return len(ticks) != stop
		})
		if err != nil || len(cover.Damage)+len(cover.Missing) > 0 {
			t.Errorf("%+v, %v", cover, err)
		}
	}
	each(0)
	if len(ticks) != 4 || !ticks[0].Equal(began.Add(time.Second)) || slices.ContainsFunc(ticks, time.Time.IsZero) {
		t.Errorf("the ticks of the requests are %v", ticks)
	}
	if each(2); len(ticks) != 2 {
		t.Errorf("%d ticks are read, want 2", len(ticks))
	}
}

// A view of more requests than it may have is of the latest, and says so.
func TestViewOfManyRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	const more = 7
	now := x.tick(false)
	now.Requests = nil
	for i := range int64(maxRequestRows + more) {
		now.Requests = append(now.Requests, tick.Request{PID: 4821, Arrived: x.now.UnixNano() + i, Events: uint32(i)})
	}
	if err := x.db.Tick(now); err != nil {
		t.Fatal(err)
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	v, _ := StateViewNamed("requests")
	got, err := openReader(t, path).State(t.Context(), Filter{Session: "s"}, v)
	if err != nil || len(got.Rows) != maxRequestRows || !strings.HasPrefix(got.Cut, fmt.Sprintf("%d earlier", more)) {
		t.Fatalf("%d rows, %q, %v", len(got.Rows), got.Cut, err)
	}
	at := slices.Index(got.Columns, "events")
	if got.Rows[0][at] != int64(more) || got.Rows[maxRequestRows-1][at] != int64(maxRequestRows+more-1) {
		t.Errorf("the rows are from %v to %v", got.Rows[0][at], got.Rows[maxRequestRows-1][at])
	}
}
