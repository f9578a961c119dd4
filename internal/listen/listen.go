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
	// ErrAddress means that a text is not an address.
	ErrAddress = errors.New("it must be :PORT, ADDRESS:PORT or NAME:PORT")
	// ErrOpen means that other machines can reach an address whose server requires a token but has
	// none.
	ErrOpen = errors.New("an address that other machines can reach requires a token")
)

// Address is an address to listen on, as configured.
type Address struct {
	host string // a name or an address; never empty
	port uint16 // 0: any free port
}

// loopback is the host of a port without one.
const loopback = "127.0.0.1"

// Parse parses ":9090" and "9090", which are local to this machine, "0.0.0.0:9090" and "[::]:9090",
// which are all its addresses, and "10.0.0.7:9090" and "gpu-7:9090", which are one address. Errors
// wrap [ErrAddress].
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
		return Address{}, fmt.Errorf("%q: %w: %q is not a port", text, ErrAddress, digits)
	}
	if host == "" {
		host = loopback
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/@?#*", r) }) {
		return Address{}, fmt.Errorf("%q: %w: %q is not a host", text, ErrAddress, host)
	}
	return Address{host: host, port: uint16(port)}, nil
}

// String returns the address with its host.
func (a Address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// Options say where a server may listen.
type Options struct {
	Token  string // token that clients must send; empty: none
	Public bool   // what is served is public, and needs no token
}

// Listener is an open port. It is safe for concurrent use.
type Listener struct {
	net.Listener
	bound netip.AddrPort
}

// Listen opens the port. A name resolves to one address, preferably IPv4. The error wraps [ErrOpen]
// if o does not allow an address that other machines can reach. Other errors come from the name or
// the socket.
func Listen(ctx context.Context, a Address, o Options) (*Listener, error) {
	ip, err := resolve(ctx, a.host)
	if err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(ip, a.port).String()
	if !ip.IsLoopback() && !o.Public && o.Token == "" {
		return nil, fmt.Errorf("listen on %s: %w", at, ErrOpen)
	}
	network := "tcp4"
	if ip.Is6() {
		network = "tcp6"
		if ip.IsUnspecified() { // IPv4 too, and only IPv4 if the kernel has no IPv6
			network, at = "tcp", net.JoinHostPort("", strconv.Itoa(int(a.port)))
		}
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, network, at)
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

// Bound returns the bound address and port.
func (l *Listener) Bound() netip.AddrPort { return l.bound }

// Local reports whether only this machine can reach the port.
func (l *Listener) Local() bool { return l.bound.Addr().IsLoopback() }

// String returns the bound address and who can reach it, for the first line of a command.
func (l *Listener) String() string {
	switch ip := l.bound.Addr(); {
	case ip.IsLoopback():
		return l.bound.String() + " (this machine only)"
	case ip.IsUnspecified():
		return l.bound.String() + " (every address of this machine)"
	}
	return l.bound.String() + " (other machines reach it)"
}

// Names reports whether a request's Host is an address of the port: a loopback address, also by
// name, the bound one, or, if all addresses were bound, any address. Any other name may belong to a
// web page that uses a browser on this machine.
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
