package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
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
		if seq >= 10 { // once at its limit
			oom := tick.HostKey{Kind: tick.HostOOM, PID: 7, Object: tick.OOMObject("/job", seq == 11)}
			x.HostSums = append(x.HostSums, tick.HostSum{HostKey: oom, Comm: "loader", Count: 1})
		}
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
		"2 oom-kill 7 0 /job loader 2 0 <nil> <nil> <nil> <nil>",
		"2 signal 4821 711 SIGSTOP cron 2 0 <nil> <nil> <nil> <nil>",
	}, "\n")
	if got := testkit.Rows(t, path, query); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The next rows have what ticks had while another process locked the database: the host's activity, and
// the slowest steps.
func TestRowsAfterAnothersTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	var tx *sql.Tx
	for seq := range uint64(10) {
		length := time.Millisecond
		switch seq {
		case 4, 5:
			length = time.Second
			if tx == nil {
				if tx, err = other.Begin(); err != nil {
					t.Fatal(err)
				}
			}
		case 6:
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(time.Second)
		step := tick.LoopStep{From: c.now.Add(-length), To: c.now}
		x := &tick.Tick{Time: c.now, Started: storetest.Began, Seq: seq, HostSums: storetest.HostSums(1),
			Breakdowns: []tick.Breakdown{{PID: 7, Elapsed: seq + 1, Loop: &tick.Loop{TID: 7, Steps: seq + 1, Lengths: &stats.Sketch{}, Recent: []tick.LoopStep{step}}}}}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := testkit.Rows(t, path, "SELECT sum(count), sum(bytes) >> 20 FROM host_sums WHERE kind = 'disk-read'"); got != "100 10" {
		t.Errorf("disk reads and MiB: %s, want those of ten ticks", got)
	}
	const slowest = "SELECT count(*) FROM accounts, json_each(detail, '$.loop.slowest') WHERE seconds = 10 AND value ->> 'to_ns' - value ->> 'from_ns' = 1000000000"
	if got := testkit.Rows(t, path, slowest); got != "2" {
		t.Errorf("%s steps of a second, want both", got)
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
