package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
)

// The SQLite file has a row for each sum every ten seconds; unknown values are NULL.
func TestHostRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	for seq := range uint64(12) {
		c.advance(time.Second)
		x := k.Tick(seq+1, c.now, seq == 11)
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
	if got := testkit.Rows(t, path, query); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An idle tick writes no machine row.
func TestIdleTickHasNoSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	k := storetest.NewKernel()
	for seq := range uint64(6) {
		c.advance(time.Second)
		x := k.Tick(seq+1, c.now, false)
		x.Idle = seq%3 != 0
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := testkit.Rows(t, path, "SELECT count(*), min(records), max(records) FROM snapshots"); got != "2 100 400" {
		t.Errorf("snapshots: %s, want those of ticks 1 and 4", got)
	}
}
