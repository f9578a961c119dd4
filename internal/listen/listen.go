package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Errors of addresses.
var (
	// ErrAddress is of a text that is no address.
	ErrAddress = errors.New("it must be :PORT, ADDRESS:PORT or NAME:PORT")
	// ErrOpen is of an address that other machines reach, where what is served needs a
	// token and there is none.
	ErrOpen = errors.New("other machines would reach it, and it has no token")
)

// Address is where to listen, as it was asked for.
type Address struct {
	host string // a name or an address; never empty
	port uint16 // 0: any that is free
}

// loopback is the host of a port alone.
const loopback = "127.0.0.1"

// Parse reads ":9090" and "9090", which are ports of this machine alone, "0.0.0.0:9090"
// and "[::]:9090", which are ports of all its addresses, "10.0.0.7:9090" and "gpu-7:9090",
// which are of one. Errors wrap [ErrAddress].
func Parse(text string) (Address, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, ErrAddress)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w: %q is no port", text, ErrAddress, digits)
	}
	if host == "" {
		host = loopback
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/@?#*", r) }) {
		return Address{}, fmt.Errorf("%q: %w: %q is no host", text, ErrAddress, host)
	}
	return Address{host: host, port: uint16(port)}, nil
}

// String returns the address with its host.
func (a Address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// Options are what matters of a server for where it may listen.
type Options struct {
	Token  string // that whoever asks must have; empty: none
	Public bool   // what is served is for everybody, and needs no token
}

// Listener is an open port. It is safe for concurrent use, as any.
type Listener struct {
	net.Listener
	bound netip.AddrPort
}

// Listen opens the port. A name becomes one address, an IPv4 one where there is one.
// The error wraps [ErrOpen] where the address is not one of this machine alone and o does
// not allow that; else it is of the name or of the socket.
func Listen(ctx context.Context, a Address, o Options) (*Listener, error) {
	ip, err := resolve(ctx, a.host)
	if err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(ip, a.port)
	if !ip.IsLoopback() && !o.Public && o.Token == "" {
		return nil, fmt.Errorf("listen on %s: %w", at, ErrOpen)
	}
	network := "tcp4"
	if ip.Is6() {
		network = "tcp6" // with [::], connections by IPv4 too
		if ip.IsUnspecified() {
			network = "tcp"
		}
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, network, at.String())
	if err != nil {
		return nil, err
	}
	bound, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", at, err), l.Close())
	}
	return &Listener{Listener: l, bound: bound}, nil
}

// resolve returns the address of a host.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap(), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			return ip.Unmap(), nil
		}
	}
	if len(ips) == 0 {
		return netip.Addr{}, fmt.Errorf("%s has no address", host)
	}
	return ips[0], nil
}

// Bound is the address and the port that were bound.
func (l *Listener) Bound() netip.AddrPort { return l.bound }

// Local tells whether only this machine reaches the port.
func (l *Listener) Local() bool { return l.bound.Addr().IsLoopback() }

// String says what was bound and who reaches it, for the line that a command starts
// with.
func (l *Listener) String() string {
	switch ip := l.bound.Addr(); {
	case ip.IsLoopback():
		return l.bound.String() + " (this machine only)"
	case ip.IsUnspecified():
		return l.bound.String() + " (every address of this machine)"
	}
	return l.bound.String() + " (other machines reach it)"
}

// Names tells whether a request's Host is an address of the port: one of the loopback,
// also by name, or the bound one; and where every address was bound, any address. A name
// that somebody else chose is none: behind it may be a page in a browser on this machine.
func (l *Listener) Names(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if name := strings.TrimSuffix(strings.ToLower(host), "."); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || l.bound.Addr().IsUnspecified() || ip == l.bound.Addr()
}
