package probes

import (
	"slices"
	"testing"

	"ingero/internal/tick"
)

// A stream that pauses after its first token goes on: its chunks or events show that its end will be
// seen.
func TestStreamPausesAfterFirstToken(t *testing.T) {
	r := ownRequests(t, 0)
	for name, tt := range map[string]struct {
		way   int
		sends [][]string
		over  bool
	}{
		"a chunk with the head":  {sends: [][]string{{stream, chunk("data: {}\n\n")}}},
		"a short chunk after it": {sends: [][]string{{stream}, {chunk("Hi")}}},
		"a chunk's end apart":    {way: 2, sends: [][]string{{stream, "2\r\nHi", "\r\n"}}},
		"events without chunks":  {sends: [][]string{{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: {}\n\n"}}},
		"the last event":         {sends: [][]string{{stream, chunk("data: {}\n\n")}, {chunk("data: [DONE]\n\n")}}, over: true},
		"a body after its head":  {sends: [][]string{{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"}, {"{}"}}, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(t, tt.way)
			peer := peerOf(t, x.client)
			x.request(post)
			for _, parts := range tt.sends {
				x.respond(parts...)
			}
			got, err := r.Drain(nil, uint64(monotonic(t))+uint64(quiet), false)
			if err != nil {
				t.Fatal(err)
			}
			over := slices.ContainsFunc(got, func(x tick.Request) bool { return x.Peer == peer })
			if over != tt.over {
				t.Fatalf("over after %s: %v, want %v", quiet, over, tt.over)
			}
			if over {
				return
			}
			x.respond(chunk("data: {}\n\n"))
			x.close(&x.server)
			if got := drain(t, r, peer); len(got) != 1 || got[0].Events != 2 {
				t.Errorf("got %+v, want one response with two events", got)
			}
		})
	}
}
