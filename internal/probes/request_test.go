package probes

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// ways are the system calls by which servers receive and send.
var ways = []struct {
	name    string
	receive func(fd int, b []byte) (int, error)
	send    func(fd int, pieces [][]byte) error
}{
	{"read and write", unix.Read, eachPiece(unix.Write)},
	{"recvfrom and sendto",
		func(fd int, b []byte) (int, error) { n, _, err := unix.Recvfrom(fd, b, 0); return n, err },
		eachPiece(func(fd int, b []byte) (int, error) { return len(b), unix.Sendto(fd, b, 0, nil) })},
	{"readv and writev",
		func(fd int, b []byte) (int, error) { return unix.Readv(fd, [][]byte{b}) },
		func(fd int, pieces [][]byte) error { _, err := unix.Writev(fd, pieces); return err }},
	{"recvmsg and sendmsg",
		func(fd int, b []byte) (int, error) {
			n, _, _, _, err := unix.RecvmsgBuffers(fd, [][]byte{b}, nil, 0)
			return n, err
		},
		func(fd int, pieces [][]byte) error {
			_, err := unix.SendmsgBuffers(fd, pieces, nil, nil, 0)
			return err
		}},
}

func eachPiece(send func(int, []byte) (int, error)) func(int, [][]byte) error {
	return func(fd int, pieces [][]byte) error { _, err := send(fd, slices.Concat(pieces...)); return err }
}

// exchange is a connection of this process to itself. The end that connected is not measured.
type exchange struct {
	t              *testing.T
	server, client int
	way            int
}

func newExchange(t *testing.T, way int) *exchange {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	fdOf := func(c net.Conn, err error) int {
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := c.(*net.TCPConn).File() // blocking
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	client := fdOf(net.Dial("tcp", listener.Addr().String()))
	x := &exchange{t, fdOf(listener.Accept()), client, way}
	t.Cleanup(func() { x.close(&x.server); x.close(&x.client) })
	return x
}

func (x *exchange) close(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
	}
	*fd = -1
}

// request sends a request from the client, and lets the server read it.
func (x *exchange) request(text string) {
	x.t.Helper()
	if _, err := unix.Write(x.client, []byte(text)); err != nil {
		x.t.Fatal(err)
	}
	b := make([]byte, 4096)
	for read := 0; read < len(text); {
		n, err := ways[x.way].receive(x.server, b)
		if err != nil || n == 0 {
			x.t.Fatalf("the server read %d bytes, %v", n, err)
		}
		read += n
	}
}

// respond sends a piece of a response, in parts.
func (x *exchange) respond(parts ...string) {
	x.t.Helper()
	pieces := make([][]byte, len(parts))
	for i, p := range parts {
		pieces[i] = []byte(p)
	}
	if err := ways[x.way].send(x.server, pieces); err != nil {
		x.t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	if n, err := unix.Read(x.client, b); err != nil || n == 0 {
		x.t.Fatalf("the client read %d bytes, %v", n, err)
	}
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

const (
	post   = "POST /v1/completions HTTP/1.1\r\nHost: here\r\n\r\n"
	stream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	short  = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
)

// ownRequests measures the requests to this process. Pieces within first of the first one are one
// event.
func ownRequests(t *testing.T, first time.Duration) *Requests {
	t.Helper()
	testkit.NeedBPF(t)
	r, err := openRequests(func(mono uint64) int64 { return int64(mono) }, first)
	testkit.NeedKernel(t, "tracepoints of what sockets transfer", err == nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.Watch(map[uint32]bool{uint32(os.Getpid()): true}); err != nil {
		t.Fatal(err)
	}
	return r
}

// Requests and responses are found in what a server receives and sends, by whatever system calls.
func TestRequests(t *testing.T) {
	r := ownRequests(t, 0)
	type want struct {
		events uint32
		status uint16
		end    tick.ResponseEnd
		post   bool
		whole  bool // read at once
		sent   int
	}
	tests := []struct {
		name string
		do   func(x *exchange)
		want []want
	}{
		{"a stream of tokens, its head apart", func(x *exchange) {
			x.request(post)
			x.respond(stream)
			for range 5 {
				x.respond(chunk("data: {}\n\n"))
			}
			x.respond(chunk("data: [DONE]\n\n"))
			x.respond("0\r\n\r\n")
		}, []want{{5, 200, tick.ResponseChunk, true, true, len(stream) + 5*15 + 19 + 5}}},
		{"a stream whose last chunk has a token", func(x *exchange) {
			x.request(post)
			x.respond(stream, chunk("data: {}\n\n"))
			x.respond(chunk("data: {}\n\n"), "0\r\n\r\n")
		}, []want{{2, 200, tick.ResponseChunk, true, true, len(stream) + 2*15 + 5}}},
		{"two requests on one connection", func(x *exchange) {
			x.request(post)
			x.respond(short)
			x.request("GET /metrics HTTP/1.1\r\n\r\n")
			x.respond(short)
			x.close(&x.server)
		}, []want{{1, 404, tick.ResponseNext, true, true, len(short)}, {1, 404, tick.ResponseClosed, false, true, len(short)}}},
		{"a body that comes later", func(x *exchange) {
			x.request("POST /generate HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")
			x.respond("HTTP/1.1 100 Continue\r\n\r\n")
			x.request(`{"prompt": "x"}`)
			x.respond(short)
			x.close(&x.server)
		}, []want{{1, 404, tick.ResponseClosed, true, false, len(short)}}},
		{"a client that leaves before the response", func(x *exchange) {
			x.request(post)
			x.close(&x.client)
			x.close(&x.server)
		}, []want{{0, 0, tick.ResponseClosed, true, true, 0}}},
		{"a response without a body", func(x *exchange) {
			x.request(post)
			x.respond("HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n")
			x.close(&x.server)
		}, []want{{0, 204, tick.ResponseClosed, true, true, 38}}},
	}
	for way := range ways {
		for _, tt := range tests {
			t.Run(ways[way].name+"/"+tt.name, func(t *testing.T) {
				x := newExchange(t, way)
				peer := peerOf(t, x.client)
				begun := monotonic(t)
				tt.do(x)
				x.close(&x.server)
				ended := monotonic(t)
				got := drain(t, r, peer)
				if len(got) != len(tt.want) {
					t.Fatalf("got %d requests, want %d: %+v", len(got), len(tt.want), got)
				}
				for i, w := range tt.want {
					g := &got[i]
					if g.Events != w.events || g.Status != w.status || g.End != w.end || g.Post != w.post || int(g.Sent) != w.sent || (g.Read == g.Whole) != w.whole {
						t.Errorf("request %d: got %+v, want %+v", i, g, w)
					}
					checkTimes(t, g, begun, ended)
				}
			})
		}
	}
}

// checkTimes checks the order of a request's times.
func checkTimes(t *testing.T, g *tick.Request, begun, ended int64) {
	t.Helper()
	if g.PID != uint32(os.Getpid()) || g.Arrived < begun || g.Read < 0 || g.Whole < g.Read || g.EndTime() > ended {
		t.Errorf("%+v is not in order, or not between %d and %d", g, begun, ended)
	}
	if g.Status != 0 && (g.Head < g.Whole || g.Last < g.Head || g.Events > 0 && (g.First < g.Head || g.Last < g.First)) {
		t.Errorf("the response of %+v is not in order", g)
	}
	if between, ok := g.Between(); ok != (g.Events > 1) || ok && between <= 0 {
		t.Errorf("%s between events, %t: %+v", between, ok, g)
	}
}

// monotonic reads the clock of requests' times, ns.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

func peerOf(t *testing.T, fd int) netip.AddrPort {
	t.Helper()
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in := at.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
}

// drain returns the requests of a client.
func drain(t *testing.T, r *Requests, peer netip.AddrPort) []tick.Request {
	t.Helper()
	all, err := r.Drain(nil, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(x tick.Request) bool { return x.Peer != peer })
}

// What is not one HTTP/1.1 request after the other is counted, and not measured.
func TestUnmeasuredRequests(t *testing.T) {
	r := ownRequests(t, 0)
	for _, tt := range []struct {
		name, reason string
		do           func(x *exchange)
	}{
		{"TLS", "requests-tls", func(x *exchange) { x.request("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") }},
		{"HTTP/2", "requests-http2", func(x *exchange) { x.request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") }},
		{"something else", "requests-other-protocol", func(x *exchange) { x.request("hello") }},
		{"an answer that is not HTTP", "requests-other-protocol", func(x *exchange) {
			x.request(post)
			if _, err := unix.Write(x.server, []byte("hello")); err != nil {
				x.t.Fatal(err)
			}
		}},
		{"two requests before a response", "requests-pipelined", func(x *exchange) { x.request(post); x.request(post); x.respond(short) }},
		{"a response, as to a client that bound its port", "", func(x *exchange) { x.request(short) }},
		{"a client with TLS", "", func(x *exchange) { x.respond("\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newExchange(t, 0)
			peer, before := peerOf(t, x.client), dropsOf(t, r)
			tt.do(x)
			x.close(&x.server)
			after := dropsOf(t, r)
			for reason, n := range after {
				want := before[reason]
				if reason == tt.reason {
					want++
				}
				if n != want {
					t.Errorf("%s went from %d to %d, want %d", reason, before[reason], n, want)
				}
			}
			if got := drain(t, r, peer); len(got) != 0 {
				t.Errorf("measured %+v", got)
			}
		})
	}
}

func dropsOf(t *testing.T, r *Requests) map[string]uint64 {
	t.Helper()
	drops, err := r.Drops()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, d := range drops {
		out[d.Reason] = d.Count
	}
	return out
}

// A response that nothing is added to ends when it has been quiet for long. At the end of a trace,
// requests without a response count too.
func TestQuietResponses(t *testing.T) {
	r := ownRequests(t, 0)
	quietOne, waiting, streaming := newExchange(t, 0), newExchange(t, 0), newExchange(t, 0)
	quietOne.request(post)
	quietOne.respond(short)
	waiting.request(post)
	streaming.request(post)
	streaming.respond(stream)
	take := func(now uint64, final bool) (peers []netip.AddrPort) {
		t.Helper()
		all, err := r.Drain(nil, now, final)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if all[i].End != tick.ResponseOpen {
				t.Errorf("%+v has ended", all[i])
			}
			peers = append(peers, all[i].Peer)
		}
		return peers
	}
	at := uint64(monotonic(t))
	if got := take(at, false); len(got) != 0 {
		t.Errorf("at once: got %v", got)
	}
	if got, want := take(at+uint64(quiet), false), []netip.AddrPort{peerOf(t, quietOne.client)}; !slices.Equal(got, want) {
		t.Errorf("after %s: got %v, want %v", quiet, got, want)
	}
	streaming.respond(chunk("data: {}\n\n")) // the first token
	streaming.respond(chunk("data: {}\n\n"))
	if got := take(at+uint64(quiet), false); len(got) != 0 {
		t.Errorf("a stream without tokens for %s: got %v", quiet, got)
	}
	if got, want := take(uint64(monotonic(t))+uint64(paused), false), []netip.AddrPort{peerOf(t, streaming.client)}; !slices.Equal(got, want) {
		t.Errorf("after %s: got %v, want %v", paused, got, want)
	}
	if got, want := take(at, true), []netip.AddrPort{peerOf(t, waiting.client)}; !slices.Equal(got, want) {
		t.Errorf("at the end: got %v, want %v", got, want)
	}
	quietOne.request(post) // is measured, on the same connection
	quietOne.respond(short)
	quietOne.close(&quietOne.server)
	if got := drain(t, r, peerOf(t, quietOne.client)); len(got) != 1 || got[0].End != tick.ResponseClosed {
		t.Errorf("the next request: got %+v", got)
	}
}

// What a server sends soon after the first piece of a body is the same event.
func TestFirstEvent(t *testing.T) {
	r := ownRequests(t, time.Hour)
	x := newExchange(t, 0)
	peer := peerOf(t, x.client)
	x.request(post)
	x.respond(stream)
	for range 3 {
		x.respond(chunk("data: {}\n\n"))
	}
	x.respond("0\r\n\r\n")
	if got := drain(t, r, peer); len(got) != 1 || got[0].Events != 1 {
		t.Errorf("got %+v, want one event", got)
	}
}

// There is room for as many servers as there are traced processes.
func TestManyServers(t *testing.T) {
	pids := map[uint32]bool{}
	for i := range uint32(4096) {
		pids[1<<24+i] = true
	}
	if err := ownRequests(t, 0).Watch(pids); err != nil {
		t.Error(err)
	}
}
