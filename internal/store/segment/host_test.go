package segment

import (
	"errors"
	"io"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
)

// The log has host activity with its tick.
func TestHostReadsBack(t *testing.T) {
	rec := record(t, 4, 100)
	l := openLog(t, rec.bytes)
	var ticks []uint64
	var err error
	for e := (Entry{}); err == nil; err = l.Next(&e) {
		if e.Tick == nil {
			continue
		}
		ticks = append(ticks, e.Tick.Seq)
		if d := diff.Diff(storetest.HostSums(e.Tick.Seq), e.Tick.HostSums); d != "" {
			t.Errorf("tick %d: -want +got:\n%s", e.Tick.Seq, d)
		}
	}
	if !errors.Is(err, io.EOF) || len(ticks) != 4 {
		t.Errorf("ticks %v, %v", ticks, err)
	}
}

// A replay delivers all host activity once.
func TestHostReplayed(t *testing.T) {
	var want tick.HostSums
	for seq := range uint64(4) {
		want.Add(storetest.HostSums(seq + 1))
	}
	r := openReplay(t, record(t, 4, 100).bytes, ReplayOptions{})
	var got tick.HostSums
	for done := false; !done; {
		r.Due(new(tick.Tick))
		_, err := r.Poll(&tick.Batch{})
		if done = errors.Is(err, io.EOF); err != nil && !done {
			t.Fatal(err)
		}
		var x tick.Tick
		if err := r.Totals(&x); err != nil {
			t.Fatal(err)
		}
		got.Add(x.HostSums)
	}
	if d := diff.Diff(want.List(), got.List()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A frame with impossible counts or values is damaged.
func TestHostOfDamagedFrames(t *testing.T) {
	enc, dec := codecs(t)
	good := func(change func([]byte) []byte) error {
		b := appendUvarint(nil, 1)
		b = appendUvarint(appendUvarint(b, uint64(tick.HostDiskRead)), 7)
		b = appendString(appendUvarint(b, 0), "vda")
		b = appendString(b, "dd")
		for range 4 {
			b = appendUvarint(b, 1)
		}
		b = appendUvarint(appendUvarint(b, 1), 1)
		_, err := readHost(enc.column(nil, change(b)), dec)
		return err
	}
	if err := good(func(b []byte) []byte { return b }); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"more sums than any":    func(b []byte) []byte { return append(appendUvarint(nil, maxHostSums+1), b[1:]...) },
		"more sums than there":  func(b []byte) []byte { return append(appendUvarint(nil, 2), b[1:]...) },
		"cut":                   func(b []byte) []byte { return b[:len(b)-1] },
		"more behind":           func(b []byte) []byte { return append(b, 0) },
		"a kind over 255":       func(b []byte) []byte { return append(appendUvarint(appendUvarint(nil, 1), 300), b[2:]...) },
		"buckets that are none": func(b []byte) []byte { return append(appendUvarint(b[:len(b)-2], 33), make([]byte, 33)...) },
	} {
		if err := good(change); !errors.Is(err, log.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
