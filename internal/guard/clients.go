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

// Bounds on the number of clients.
const (
	maxClients = 128
	maxShare   = 64 // of one address
)

// clients is a listener that limits the number of clients. When it is full, or an address has its
// share, it closes the connection that has been idle longest: of that address, or else of the
// address with most. So a client that opens many idle connections keeps nobody out.
type clients struct {
	net.Listener

	mu     sync.Mutex
	all    []*client // in order of arrival
	room   sync.Cond // signaled when one leaves, or the listener is closed
	closed bool
}

func newClients(l net.Listener) *clients {
	c := &clients{Listener: l}
	c.room.L = &c.mu
	return c
}

// Accept returns the next client for which there is room.
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

// take makes room for a connection, and waits if all clients are being answered. It returns nil if
// the address has its share.
func (l *clients) take(conn net.Conn) *client {
	c := &client{Conn: conn, clients: l, from: addressOf(conn)}
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

// count returns the number of clients of an address.
func (l *clients) count(from netip.Prefix) (n int) {
	for _, c := range l.all {
		if c.from == from {
			n++
		}
	}
	return n
}

// most returns the address with most idle clients.
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

// evict closes the first idle client of an address.
func (l *clients) evict(from netip.Prefix) bool {
	i := slices.IndexFunc(l.all, func(c *client) bool { return c.from == from && !c.answered })
	if i < 0 {
		return false
	}
	c := l.all[i]
	l.all = slices.Delete(l.all, i, i+1)
	_ = c.Conn.Close() // its reader sees that
	return true
}

// Close also ends a wait for room.
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
	clients  *clients
	from     netip.Prefix
	answered bool // a complete request is being answered
}

// Close closes the connection and frees its place.
func (c *client) Close() error {
	c.clients.mu.Lock()
	if i := slices.Index(c.clients.all, c); i >= 0 {
		c.clients.all = slices.Delete(c.clients.all, i, i+1)
		c.clients.room.Signal()
	}
	c.clients.mu.Unlock()
	return c.Conn.Close()
}

// addressOf returns the unit that counts as one: an IPv4 address, an IPv6 network, this machine.
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

// clientKey is the key of the client in a request's context.
type clientKey struct{}

// known puts a connection's client into the context of its requests.
func known(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, clientKey{}, conn)
}

// answering marks the clients that are being answered.
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
	c.clients.mu.Lock()
	c.answered = answered
	if !answered {
		c.clients.room.Signal() // it can now be evicted
	}
	c.clients.mu.Unlock()
}
