package decode

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// HostKey returns the key of a host sum. A device is named by its number ("254:0"), which is
// [tick.HostKey]'s object until its name is known.
func HostKey(k *bpf.IngeroHostKey) tick.HostKey {
	out := tick.HostKey{Kind: hostEvent(k), PID: k.Tgid}
	switch out.Kind.Row().Object {
	case "device":
		if k.Object[0] != 0 {
			out.Object = Device(uint32(k.Object[0]))
		}
	case "peer":
		out.Object = peer(k)
	case "signal":
		out.Sender = uint32(k.Object[0] >> 32)
		out.Object = tick.SignalName(uint8(k.Object[0]))
	case "file":
		out.Sender, out.Object = uint32(k.Object[0]), fileName(k)
	}
	return out
}

// hostEvent returns the kind of a key.
func hostEvent(k *bpf.IngeroHostKey) tick.HostEvent {
	if k.Kind == uint8(bpf.IngeroHostKindHOST_LOCK_REFUSED) {
		return tick.HostLockRefused
	}
	kind := tick.HostEvent(k.Kind)
	return cmp.Or(sockets[bpf.IngeroHostPeer(k.Peer)][kind], kind)
}

// sockets has the kinds of sums other than TCP's.
var sockets = map[bpf.IngeroHostPeer]map[tick.HostEvent]tick.HostEvent{
	bpf.IngeroHostPeerPEER_UDP:  {tick.HostSend: tick.HostUDPSend, tick.HostReceive: tick.HostUDPReceive},
	bpf.IngeroHostPeerPEER_UNIX: {tick.HostSend: tick.HostUnixSend, tick.HostReceive: tick.HostUnixReceive},
}

// Device formats a device number as the kernel does.
func Device(dev uint32) string {
	const minorBits = 20
	return strconv.Itoa(int(dev>>minorBits)) + ":" + strconv.Itoa(int(dev&(1<<minorBits-1)))
}

// peer returns the other end of a connection, "" if there is none.
func peer(k *bpf.IngeroHostKey) string {
	b := objectBytes(k)
	if bpf.IngeroHostPeer(k.Peer) == bpf.IngeroHostPeerPEER_UNIX {
		return unixName(b[:], int(k.Port))
	}
	addr := netip.AddrFrom16([16]byte(b[:16])).Unmap()
	if addr.IsUnspecified() {
		return ""
	}
	if k.Port == 0 { // a client's port carries no information
		return addr.String()
	}
	return netip.AddrPortFrom(addr, k.Port>>8|k.Port<<8).String()
}

func objectBytes(k *bpf.IngeroHostKey) (b [32]byte) {
	for i, x := range k.Object {
		binary.NativeEndian.PutUint64(b[8*i:], x)
	}
	return b
}

// fileName returns the name of the file of a lock, without its directory. The kernel passes the start.
func fileName(k *bpf.IngeroHostKey) string {
	b := objectBytes(k)
	start := b[8:]
	name := printable(string(start[:min(int(k.Port), len(start))]))
	if int(k.Port) > len(start) {
		name += "..."
	}
	return name
}

// unixName formats the name of a UNIX socket, of which the kernel passes the end. In an abstract name, each
// 0 is an "@", as in /proc/net/unix.
func unixName(end []byte, length int) string {
	start := ""
	if length > len(end) {
		start = "..."
	}
	name := string(end[:min(length, len(end))])
	if start != "" || name == "" || name[0] != 0 {
		name = strings.TrimRight(name, "\x00") // the path's end
	}
	return start + printable(name)
}

// printable replaces what is no text.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '@'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}

// HostSum returns the growth of a sum between two readings.
func HostSum(k tick.HostKey, now, before *bpf.IngeroHostSum) tick.HostSum {
	s := tick.HostSum{HostKey: k, Comm: text(now.Comm), Count: now.Count - before.Count, Failed: now.Failed - before.Failed,
		Bytes: now.Bytes - before.Bytes, NS: now.Ns - before.Ns}
	for i, n := range now.Hist {
		s.Hist[i] = uint64(n - before.Hist[i])
	}
	return s
}
