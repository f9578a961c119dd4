package decode

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// HostKey says what one of the kernel's sums of the host is of. Devices are told by
// their numbers ("254:0"), which is what [tick.HostKey] calls an object until
// somebody knows a name.
func HostKey(k *bpf.IngeroHostKey) tick.HostKey {
	out := tick.HostKey{Kind: tick.HostEvent(k.Kind), PID: k.Tgid}
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
	}
	return out
}

// Device is a device's number as the kernel writes it.
func Device(dev uint32) string {
	const minorBits = 20
	return strconv.Itoa(int(dev>>minorBits)) + ":" + strconv.Itoa(int(dev&(1<<minorBits-1)))
}

// peer is the other end of a connection, "" where none is told.
func peer(k *bpf.IngeroHostKey) string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], k.Object[0])
	binary.NativeEndian.PutUint64(b[8:], k.Object[1])
	addr := netip.AddrFrom16(b).Unmap()
	if addr.IsUnspecified() {
		return ""
	}
	if k.Port == 0 { // a client's, which says nothing
		return addr.String()
	}
	return netip.AddrPortFrom(addr, k.Port>>8|k.Port<<8).String()
}

// HostSum returns what was added to a sum between two readings of it.
func HostSum(k tick.HostKey, now, before *bpf.IngeroHostSum) tick.HostSum {
	s := tick.HostSum{HostKey: k, Comm: text(now.Comm), Count: now.Count - before.Count, Failed: now.Failed - before.Failed,
		Bytes: now.Bytes - before.Bytes, NS: now.Ns - before.Ns}
	for i, n := range now.Hist {
		s.Hist[i] = uint64(n - before.Hist[i])
	}
	return s
}
