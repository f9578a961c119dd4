package decode

import (
	"net/netip"
	"testing"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// Kernel keys decode to the sums' keys.
func TestHostKey(t *testing.T) {
	peer := func(kind uint8, addr string, port uint16) bpf.IngeroHostKey {
		k := bpf.IngeroHostKey{Tgid: 7, Kind: kind}
		*(*[16]byte)(unsafe.Pointer(&k.Object)) = netip.MustParseAddr(addr).As16()
		*(*[2]byte)(unsafe.Pointer(&k.Port)) = [2]byte{byte(port >> 8), byte(port)} // in network order
		return k
	}
	udp := func(k bpf.IngeroHostKey) bpf.IngeroHostKey {
		k.Peer = uint8(bpf.IngeroHostPeerPEER_UDP)
		return k
	}
	unix := func(name string) bpf.IngeroHostKey {
		k := bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostSend), Peer: uint8(bpf.IngeroHostPeerPEER_UNIX), Port: uint16(len(name))}
		copy((*[32]byte)(unsafe.Pointer(&k.Object))[:], name[max(len(name)-32, 0):])
		return k
	}
	lock := func(file string) bpf.IngeroHostKey {
		k := bpf.IngeroHostKey{Tgid: 7, Kind: uint8(bpf.IngeroHostKindHOST_LOCK_REFUSED), Port: uint16(len(file)), Object: [4]uint64{99}}
		copy((*[32]byte)(unsafe.Pointer(&k.Object))[8:], file)
		return k
	}
	for _, x := range []struct {
		in   bpf.IngeroHostKey
		want tick.HostKey
	}{
		{bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostDiskRead), Object: [4]uint64{254<<20 | 3}}, tick.HostKey{Kind: tick.HostDiskRead, PID: 7, Object: "254:3"}},
		{bpf.IngeroHostKey{Kind: uint8(tick.HostDiskWrite)}, tick.HostKey{Kind: tick.HostDiskWrite}},
		{bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostSignal), Object: [4]uint64{99<<32 | 19}}, tick.HostKey{Kind: tick.HostSignal, PID: 7, Sender: 99, Object: "SIGSTOP"}},
		{bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostSignal), Object: [4]uint64{40}}, tick.HostKey{Kind: tick.HostSignal, PID: 7, Object: "signal 40"}},
		{peer(uint8(tick.HostSend), "::ffff:10.0.0.7", 443), tick.HostKey{Kind: tick.HostSend, PID: 7, Object: "10.0.0.7:443"}},
		{peer(uint8(tick.HostRetransmit), "fd00::1", 8080), tick.HostKey{Kind: tick.HostRetransmit, PID: 7, Object: "[fd00::1]:8080"}},
		{peer(uint8(tick.HostReceive), "fd00::1", 0), tick.HostKey{Kind: tick.HostReceive, PID: 7, Object: "fd00::1"}},
		{peer(uint8(tick.HostConnect), "::", 0), tick.HostKey{Kind: tick.HostConnect, PID: 7}},
		{udp(peer(uint8(tick.HostSend), "::ffff:10.0.0.2", 53)), tick.HostKey{Kind: tick.HostUDPSend, PID: 7, Object: "10.0.0.2:53"}},
		{udp(peer(uint8(tick.HostReceive), "fd00::1", 0)), tick.HostKey{Kind: tick.HostUDPReceive, PID: 7, Object: "fd00::1"}},
		{unix("/run/x.sock\x00"), tick.HostKey{Kind: tick.HostUnixSend, PID: 7, Object: "/run/x.sock"}},
		{unix("\x00a\x00\n\xff"), tick.HostKey{Kind: tick.HostUnixSend, PID: 7, Object: "@a@@?"}},
		{unix("/a/path/of/more/than/32/bytes/x.sock\x00"), tick.HostKey{Kind: tick.HostUnixSend, PID: 7, Object: "...th/of/more/than/32/bytes/x.sock"}},
		{bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostReceive), Peer: uint8(bpf.IngeroHostPeerPEER_UNIX)}, tick.HostKey{Kind: tick.HostUnixReceive, PID: 7}},
		{lock("data.lock"), tick.HostKey{Kind: tick.HostLockRefused, PID: 7, Sender: 99, Object: "data.lock"}},
		{lock("a-name-of-more-than-24-bytes"), tick.HostKey{Kind: tick.HostLockRefused, PID: 7, Sender: 99, Object: "a-name-of-more-than-24-b..."}},
		{bpf.IngeroHostKey{Tgid: 7, Kind: uint8(tick.HostReclaim)}, tick.HostKey{Kind: tick.HostReclaim, PID: 7}},
	} {
		if got := HostKey(&x.in); got != x.want {
			t.Errorf("got %+v, want %+v", got, x.want)
		}
	}
}

// The kernel's kinds and buckets match those of tick.
func TestHostKinds(t *testing.T) {
	for kind, want := range map[bpf.IngeroHostKind]tick.HostEvent{
		bpf.IngeroHostKindHOST_DISK_READ: tick.HostDiskRead, bpf.IngeroHostKindHOST_DISK_WRITE: tick.HostDiskWrite,
		bpf.IngeroHostKindHOST_DISK_FLUSH: tick.HostDiskFlush, bpf.IngeroHostKindHOST_RECLAIM: tick.HostReclaim,
		bpf.IngeroHostKindHOST_CGROUP_RECLAIM: tick.HostCgroupReclaim, bpf.IngeroHostKindHOST_OOM: tick.HostOOM,
		bpf.IngeroHostKindHOST_SIGNAL: tick.HostSignal, bpf.IngeroHostKindHOST_RETRANSMIT: tick.HostRetransmit,
		bpf.IngeroHostKindHOST_CONNECT: tick.HostConnect, bpf.IngeroHostKindHOST_SEND: tick.HostSend,
		bpf.IngeroHostKindHOST_RECEIVE: tick.HostReceive, bpf.IngeroHostKindHOST_LOCK_REFUSED: tick.HostPages, // the first that differs
	} {
		if tick.HostEvent(kind) != want {
			t.Errorf("the kernel's kind %d is %v here, want %v", kind, tick.HostEvent(kind), want)
		}
	}
	if n := len(bpf.IngeroHostSum{}.Hist); n != tick.HostBuckets {
		t.Errorf("the kernel has %d buckets, we have %d", n, tick.HostBuckets)
	}
}

// A sum is the growth between two readings, even if a bucket has wrapped.
func TestHostSum(t *testing.T) {
	a, b := bpf.IngeroHostSum{Count: 5, Failed: 1, Bytes: 50, Ns: 500}, bpf.IngeroHostSum{Count: 8, Failed: 2, Bytes: 90, Ns: 900, Comm: [16]int8{'d', 'd'}}
	a.Hist[3], b.Hist[3] = 1<<32-1, 2
	want := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 7}, Comm: "dd", Count: 3, Failed: 1, Bytes: 40, NS: 400}
	want.Hist[3] = 3
	if got := HostSum(want.HostKey, &b, &a); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
