package segment

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

// someRequests returns requests with all kinds of values.
func someRequests(n int) (out []tick.Request) {
	r := rand.New(rand.NewPCG(1, 2))
	at := int64(1_800_000_000e9)
	for i := range n {
		at += r.Int64N(1e9) - 1000
		x := tick.Request{Arrived: at, PID: r.Uint32(), TID: r.Uint32(), Port: uint16(r.Uint32()), Events: r.Uint32N(1000), Received: r.Uint64() >> r.UintN(64), Sent: r.Uint64() >> r.UintN(64),
			Refused: r.Uint32N(3), Unread: r.Uint32(), Status: uint16(r.UintN(600)), Post: i%3 > 0, End: tick.ResponseEnd(i % 4)}
		for _, d := range requestTimes(&x) {
			*d = time.Duration(r.Int64N(1e12) - 1)
		}
		if x.Split = i%2 > 0; x.Split {
			x.EnginePID, x.EngineTID = r.Uint32(), r.Uint32()
			for _, d := range splitTimes(&x) {
				*d = time.Duration(r.Int64N(1e12))
			}
			x.After.Steps = time.Duration(r.Int64N(2) * r.Int64N(1e12))
		}
		x.Peer = []netip.AddrPort{{}, netip.MustParseAddrPort("10.1.2.3:51234"), netip.MustParseAddrPort("[fe80::1%eth0]:80")}[i%3]
		out = append(out, x)
	}
	return out
}

// Requests are read back as written, each in one tick.
func TestRequestFrames(t *testing.T) {
	m, w := beginLog(t, Head{})
	want := someRequests(2*frameRequestsMax + 5)
	w.putRequests(want)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := openReplay(t, m.Bytes(), ReplayOptions{})
	for more := true; more; {
		var b tick.Batch
		var err error
		if more, err = r.Poll(&b); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	var first, second tick.Tick
	for _, now := range []*tick.Tick{&first, &second} {
		if err := r.Totals(now); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(first.Requests, want) {
		t.Errorf("-want +got:\n%.2000s", cmp.Diff(want, first.Requests, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })))
	}
	if len(second.Requests) != 0 {
		t.Errorf("the next tick has %d requests", len(second.Requests))
	}
}
