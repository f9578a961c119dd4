package guard

import (
	"net"
	"testing"
	"testing/synctest"
)

// fakeConn is a connection from an address that can only be closed.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

// RemoteAddr returns the connection's origin.
func (c *fakeConn) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.from)
	return a
}

// Close records the call.
func (c *fakeConn) Close() error { c.closed = true; return nil }

// An address with many connections loses its first idle one. Other addresses, and clients that are
// being answered, keep theirs.
func TestClientsShareRoom(t *testing.T) {
	l := newClients(nil)
	open := func(from string) (*fakeConn, *client) {
		c := &fakeConn{from: from}
		return c, l.take(c)
	}
	calm, _ := open("10.0.0.1:1")
	asks, asking := open("10.0.0.9:1")
	asking.note(true)
	var many []*fakeConn
	for i := range 63 {
		c, in := open("10.0.0.9:2")
		if in == nil || asks.closed {
			t.Fatalf("connection %d of an address that has room: %v", i, in)
		}
		many = append(many, c)
	}
	if _, in := open("10.0.0.9:3"); in == nil || !many[0].closed || many[1].closed || asks.closed {
		t.Error("beyond its share an address must lose its first connection that asks nothing")
	}
	for i := range 62 { // full: 1 + 64 + 63 networks with one each
		open("[2001:db8:" + string(rune('a'+i%6)) + ":" + string(rune('0'+i/6%10)) + "::1]:1")
	}
	first, _ := open("192.0.2.1:1")
	if many[1].closed || calm.closed {
		t.Error("it makes room before there is need")
	}
	if _, in := open("192.0.2.2:1"); in == nil || !many[1].closed || calm.closed || first.closed {
		t.Error("for one more the address that has most must lose a connection")
	}
}

// An address whose clients are all being answered gets no more. When all clients are being
// answered, the next one waits.
func TestClientsWait(t *testing.T) { synctest.Test(t, clientsWait) }

func clientsWait(t *testing.T) {
	l := newClients(nil)
	var busy []*client
	for i := range maxClients {
		from := "10.0.0.1:1"
		if i >= maxShare {
			from = "10.0.0.2:1"
		}
		c := l.take(&fakeConn{from: from})
		c.note(true)
		busy = append(busy, c)
	}
	if c := l.take(&fakeConn{from: "10.0.0.2:1"}); c != nil {
		t.Error("an address has more than its share")
	}
	got := make(chan *client)
	go func() { got <- l.take(&fakeConn{from: "10.0.0.3:1"}) }()
	synctest.Wait() // until it waits
	select {
	case <-got:
		t.Error("there is room for more than there is")
	default:
	}
	_ = busy[5].Close()
	if c := <-got; c == nil {
		t.Error("the next does not come in")
	}
}

// IPv6 networks and this machine count as one.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", true},
		{"10.0.0.1:1", "10.0.0.2:1", false},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:1", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"127.0.0.1:1", "127.0.0.77:1", true},
		{"127.0.0.1:1", "[::1]:1", true},
	} {
		if got := addressOf(&fakeConn{from: tt.a}) == addressOf(&fakeConn{from: tt.b}); got != tt.same {
			t.Errorf("%s and %s: one is %v", tt.a, tt.b, got)
		}
	}
}
