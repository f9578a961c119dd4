package decode

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// HostKey returns the key of a host sum. A device is named by its number ("254:0"), which is
// [tick.HostKey]'s object until its name is known.
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

// Device formats a device number as the kernel does.
func Device(dev uint32) string {
	const minorBits = 20
	return strconv.Itoa(int(dev>>minorBits)) + ":" + strconv.Itoa(int(dev&(1<<minorBits-1)))
}

// peer returns the other end of a connection, "" if there is none.
func peer(k *bpf.IngeroHostKey) string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], k.Object[0])
	binary.NativeEndian.PutUint64(b[8:], k.Object[1])
	addr := netip.AddrFrom16(b).Unmap()
	if addr.IsUnspecified() {
		return ""
	}
	if k.Port == 0 { // a client's port carries no information
		return addr.String()
	}
	return netip.AddrPortFrom(addr, k.Port>>8|k.Port<<8).String()
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
