package guard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// Bounds of how many clients there can be.
const (
	maxClients = 128
	maxShare   = 64 // of one address
)

// clients is a listener that keeps no more clients than there is room for. Where there is
// none, or an address has its share, the connection of that address (else of the one that
// has most) is closed that has waited longest without being answered: whoever opens many
// and asks nothing keeps nobody out.
type clients struct {
	net.Listener

	mu     sync.Mutex
	all    []*client // in the order in which they came
	room   sync.Cond // one has left, or the listener is closed
	closed bool
}

func newClients(l net.Listener) *clients {
	c := &clients{Listener: l}
	c.room.L = &c.mu
	return c
}

// Accept returns the next client that there is room for.
func (l *clients) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.take(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // its address has its share
	}
}

// take makes room for a connection, for which it waits where all are being answered; nil:
// its address can have no more.
func (l *clients) take(conn net.Conn) *client {
	c := &client{Conn: conn, of: l, from: addressOf(conn)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count(c.from) >= maxShare && !l.evict(c.from) {
		return nil
	}
	for len(l.all) >= maxClients && !l.closed && !l.evict(l.most()) {
		l.room.Wait()
	}
	l.all = append(l.all, c)
	return c
}

// count is how many clients an address has.
func (l *clients) count(from netip.Prefix) (n int) {
	for _, c := range l.all {
		if c.from == from {
			n++
		}
	}
	return n
}

// most is the address that has most clients that are not being answered.
func (l *clients) most() (from netip.Prefix) {
	count := map[netip.Prefix]int{}
	for _, c := range l.all {
		if !c.answered {
			count[c.from]++
		}
		if count[c.from] > count[from] {
			from = c.from
		}
	}
	return from
}

// evict closes the first client of an address that is not being answered.
func (l *clients) evict(from netip.Prefix) bool {
	i := slices.IndexFunc(l.all, func(c *client) bool { return c.from == from && !c.answered })
	if i < 0 {
		return false
	}
	c := l.all[i]
	l.all = slices.Delete(l.all, i, i+1)
	_ = c.Conn.Close() // whoever reads from it sees that
	return true
}

// Close ends a wait for room, too.
func (l *clients) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// client is a connection. of.mu guards answered.
type client struct {
	net.Conn
	of       *clients
	from     netip.Prefix
	answered bool // a request is whole, and its answer under way
}

// Close closes the connection and gives its room back.
func (c *client) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.all, c); i >= 0 {
		c.of.all = slices.Delete(c.of.all, i, i+1)
		c.of.room.Signal()
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// addressOf is who counts as one: an IPv4 address, a network of IPv6, this machine.
func addressOf(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	ip := at.Addr().Unmap()
	switch {
	case err != nil || ip.IsLoopback():
		return netip.Prefix{}
	case ip.Is4():
		return netip.PrefixFrom(ip, 32)
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked()
}

// clientKey is of the client in a request's context.
type clientKey struct{}

// known puts the client of a connection into the context of its requests.
func known(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, clientKey{}, conn)
}

// answering notes which clients are being answered.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(clientKey{}).(*client); ok {
			c.note(true)
			defer c.note(false)
		}
		h.ServeHTTP(w, r)
	})
}

func (c *client) note(answered bool) {
	c.of.mu.Lock()
	c.answered = answered
	if !answered {
		c.of.room.Signal() // it can be closed for another
	}
	c.of.mu.Unlock()
}
