package session

import (
	"testing"

	"ingero/internal/bpf"
	"ingero/internal/probes"
	"ingero/internal/tick"
)

// hostKernel is a kernel that has host sums only.
type hostKernel struct {
	kernel
	sums map[probes.HostKey]probes.HostSum
}

func (k *hostKernel) HostSums(take func(probes.HostKey, *probes.HostSum)) error {
	for key, s := range k.sums {
		take(key, &s)
	}
	return nil
}

func (k *hostKernel) ForgetHost(key probes.HostKey) (probes.HostSum, error) {
	s := k.sums[key]
	delete(k.sums, key)
	return s, nil
}

// Host sums whose keys have texts of the machine are left out of clean raw tapes.
func TestHostKeysWithText(t *testing.T) {
	for key, want := range map[probes.HostKey]bool{
		{Kind: uint8(tick.HostSend), Object: [4]uint64{0, 1}}:                                    true,
		{Kind: uint8(bpf.IngeroHostKindHOST_LOCK_REFUSED), Port: 1, Object: [4]uint64{900, 'a'}}: true,
		{Kind: uint8(bpf.IngeroHostKindHOST_LOCK_REFUSED), Object: [4]uint64{900}}:               false,
		{Kind: uint8(tick.HostDiskRead), Object: [4]uint64{1}}:                                   false,
	} {
		if hasText(&key) != want {
			t.Errorf("%+v: want %v", key, want)
		}
	}
}

// Idle sums of a traced process are kept for long, unless they fill the kernel's room. Those of entries without
// room always stay.
func TestIdleHostSums(t *testing.T) {
	var rests []probes.HostKey
	for kind := tick.HostDiskRead; kind <= tick.HostReceive; kind++ {
		rests = append(rests, probes.HostKey{Kind: uint8(kind)})
	}
	for _, kind := range []tick.HostEvent{tick.HostSend, tick.HostReceive} {
		for _, peer := range []bpf.IngeroHostPeer{bpf.IngeroHostPeerPEER_UDP, bpf.IngeroHostPeerPEER_UNIX} {
			rests = append(rests, probes.HostKey{Kind: uint8(kind), Peer: uint8(peer)})
		}
	}
	for sums, want := range map[int]int{100: 100, 3000: 0} {
		k := &hostKernel{sums: map[probes.HostKey]probes.HostSum{}}
		for _, rest := range rests {
			k.sums[rest] = probes.HostSum{}
		}
		for i := range sums {
			k.sums[probes.HostKey{Tgid: 7, Kind: uint8(tick.HostSend), Object: [4]uint64{0, uint64(i)}}] = probes.HostSum{Count: 1}
		}
		w := newHostWatch(k, nil, &gpuUsers{}, nil, nil)
		w.procs = map[uint32]tracedProcess{7: {}}
		told := uint64(0)
		for range 12 {
			err := w.read(func(x *hostSeen, now *probes.HostSum) { told += now.Count - x.sum.Count })
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, rest := range rests {
			if _, ok := k.sums[rest]; !ok {
				t.Errorf("%d idle sums: %+v was deleted", sums, rest)
			}
		}
		if want += len(rests); len(k.sums) != want || len(w.seen) != want || told != uint64(sums) {
			t.Errorf("%d idle sums: %d stay, %d are known, want %d; %d events were passed on", sums, len(k.sums), len(w.seen), want, told)
		}
	}
}
