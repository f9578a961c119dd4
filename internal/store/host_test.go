package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// hostSums returns the host activity of tick seq.
func hostSums(seq uint64) []tick.HostSum {
	disk := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 4821, Object: "vda"}, Comm: "python3", Count: 10, Failed: 1, Bytes: seq << 20}
	for range disk.Count {
		disk.NS += 100_000 * seq
		disk.Hist.Add(100_000 * seq)
	}
	return []tick.HostSum{disk,
		{HostKey: tick.HostKey{Kind: tick.HostSignal, PID: 4821, Sender: 711, Object: "SIGSTOP"}, Comm: "cron", Count: 1},
		{HostKey: tick.HostKey{Kind: tick.HostCPUPressure}, NS: 20_000_000},
		{HostKey: tick.HostKey{Kind: 250, Object: "of the future"}, Count: 1}}
}

// The log has host activity with its tick.
func TestHostReadsBack(t *testing.T) {
	rec := record(t, 4, 100)
	l, err := OpenLog(bytes.NewReader(rec.bytes), int64(len(rec.bytes)))
	if err != nil {
		t.Fatal(err)
	}
	var ticks []uint64
	for e := (Entry{}); err == nil; err = l.Next(&e) {
		if e.Tick == nil {
			continue
		}
		ticks = append(ticks, e.Tick.Seq)
		if d := diff.Diff(hostSums(e.Tick.Seq), e.Tick.HostSums); d != "" {
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
		want.Add(hostSums(seq + 1))
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

// The SQLite file has a row for each sum every ten seconds; unknown values are NULL.
func TestHostRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := newKernel()
	for seq := range uint64(12) {
		c.advance(time.Second)
		x := k.tick(seq+1, c.now, seq == 11)
		x.Started = c.now.Add(-time.Duration(seq+1) * time.Second)
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	const query = `SELECT window_ns / 1000000000, kind, pid, sender, object, comm, count, failed, bytes, total_ns, p50_ns, p99_ns
		FROM host_sums ORDER BY time_ns, kind`
	want := strings.Join([]string{
		"10 ? 0 0 of the future  <nil> 0 <nil> <nil> <nil> <nil>",
		"10 cpu-pressure 0 0   <nil> 0 <nil> 200000000 <nil> <nil>",
		fmt.Sprint("10 disk-read 4821 0 vda python3 100 10 ", 55<<20, " 55000000 393216 786432"),
		"10 signal 4821 711 SIGSTOP cron 10 0 <nil> <nil> <nil> <nil>",
		"2 ? 0 0 of the future  <nil> 0 <nil> <nil> <nil> <nil>",
		"2 cpu-pressure 0 0   <nil> 0 <nil> 40000000 <nil> <nil>",
		fmt.Sprint("2 disk-read 4821 0 vda python3 20 2 ", 23<<20, " 23000000 1572864 1572864"),
		"2 signal 4821 711 SIGSTOP cron 2 0 <nil> <nil> <nil> <nil>",
	}, "\n")
	if got := ask(t, path, query); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An idle tick writes no machine row.
func TestIdleTickHasNoSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := newKernel()
	for seq := range uint64(6) {
		c.advance(time.Second)
		x := k.tick(seq+1, c.now, false)
		x.Idle = seq%3 != 0
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, path, "SELECT count(*), min(records), max(records) FROM snapshots"); got != "2 100 400" {
		t.Errorf("snapshots: %s, want those of ticks 1 and 4", got)
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
