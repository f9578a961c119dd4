package tick

import (
	"testing"
	"testing/quick"
)

// The value of a time's bucket is always within a factor of 1.5 of it.
func TestHostHist(t *testing.T) {
	near := func(ns uint64) bool {
		var h HostHist
		h.Add(ns)
		q := uint64(h.Quantile(0.5))
		return h.Count() == 1 && (ns < 1024 && q == 512 || ns >= 1<<40 || q*2 <= ns*3 && ns <= q*3/2)
	}
	for shift := range 64 {
		for _, ns := range []uint64{1<<shift - 1, 1 << shift, 1<<shift + 1} {
			if !near(ns) {
				t.Errorf("%d ns is not near its bucket", ns)
			}
		}
	}
	if err := quick.Check(near, nil); err != nil {
		t.Error(err)
	}
	var h HostHist
	for range 98 {
		h.Add(100_000)
	}
	h.Add(10_000_000)
	h.Add(10_000_000)
	if p50, p99 := h.Quantile(0.5), h.Quantile(0.99); p50 != 98304 || p99 != 768<<14 {
		t.Errorf("p50 %d p99 %d", p50, p99)
	}
}

// Sums beyond the limit go to the sum of their kind.
func TestHostSumsFull(t *testing.T) {
	var all HostSums
	const n = maxHostSums + 100
	for i := range uint32(n) {
		all.Add([]HostSum{{HostKey: HostKey{Kind: HostDiskRead, PID: i + 1}, Count: 1, Bytes: 2, NS: 3}})
	}
	list := all.List()
	var total HostSum
	for i := range list {
		total.Add(&list[i])
	}
	if len(list) != maxHostSums+1 || total.Count != n || total.Bytes != 2*n || total.NS != 3*n {
		t.Errorf("%d sums of %d, want %d of %d", len(list), total.Count, maxHostSums+1, n)
	}
	if all.Reset(); len(all.List()) != 0 {
		t.Error("Reset leaves some")
	}
}

// Each kind has a unique name and describes its sums.
func TestHostRows(t *testing.T) {
	seen := map[string]bool{}
	for k := HostEvent(1); k < hostEvents; k++ {
		row := k.Row()
		if row.Name == "" || row.Title == "" || seen[row.Name] || row.One == "" && row.NS == "" {
			t.Errorf("kind %d: %+v", k, *row)
		}
		seen[row.Name] = true
	}
	if HostEvent(0).String() != "?" || hostEvents.String() != "?" {
		t.Error("what is no kind has a name")
	}
}
