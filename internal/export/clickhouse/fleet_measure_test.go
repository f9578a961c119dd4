//go:build measure

package clickhouse_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/testkit"
)

// senders is how many machines send at the same time.
const senders = 32

// One ClickHouse accepts what a fleet of 1,000 machines sends. Each machine inserts a block of
// calls, one of rollups and one of causes, as after a pass of 2 s at 200, 2,000 and 20,000 calls a
// second. Afterwards the dashboard's panels query all machines.
func TestFleet(t *testing.T) {
	c := newCluster(t, []int{0})
	s := c.servers[0]
	machines := 0
	for _, load := range []struct{ machines, calls int }{{1000, 400}, {1000, 4_000}, {100, 40_000}} {
		var all []*recorder
		for i := range load.machines {
			w := newRecorderOn(t, fmt.Sprintf("gpu-%d", i), fmt.Sprintf("%d-of-%d", load.calls, i))
			w.record(load.calls)
			w.finish()
			all = append(all, w)
		}
		before, err := strconv.Atoi(s.ask("SELECT count() FROM ingero.calls"))
		if err != nil {
			t.Fatal(err)
		}
		took := sendAll(t, c.addresses(0), all).Seconds()
		if got, want := s.ask("SELECT count() FROM ingero.calls"), strconv.Itoa(before+load.machines*load.calls); got != want {
			t.Errorf("the table has %s calls, want %s", got, want)
		}
		of := "-of-" + strconv.Itoa(load.calls)
		testkit.Measured(t, "inserts"+of, float64(3*load.machines)/took, "inserts/s", testkit.Higher)
		testkit.Measured(t, "calls"+of, float64(load.machines*load.calls)/took, "calls/s", testkit.Higher)
		machines = max(machines, load.machines)
	}
	if got := s.ask("SELECT uniqExact(node) FROM ingero.calls"); got != strconv.Itoa(machines) {
		t.Errorf("the table has %s machines, want %d", got, machines)
	}
	bytes, err := strconv.ParseFloat(s.ask("SELECT sum(bytes_on_disk) / sum(rows) FROM system.parts WHERE active AND table = 'calls_local'"), 64)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Measured(t, "call", bytes, "bytes", testkit.Lower)
	var sum, slowest float64
	for _, queries := range panels(t) {
		for _, query := range queries {
			took := testkit.MedianMS(5, func() { s.ask(query) })
			sum, slowest = sum+took, max(slowest, took)
		}
	}
	testkit.Measured(t, "panels", sum, "ms", testkit.Lower)
	testkit.Measured(t, "slowest-panel", slowest, "ms", testkit.Lower)
}

// sendAll copies recordings as a trace does, without asking what the cluster has, and returns how
// long it took.
func sendAll(t *testing.T, addresses string, all []*recorder) time.Duration {
	t.Helper()
	began := time.Now()
	next := make(chan *recorder)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for w := range next {
				cluster, err := clickhouse.Open(addresses, clickhouse.Options{})
				if err != nil {
					t.Error(err)
					continue
				}
				// The only pass is that of the end.
				f := clickhouse.Follow(cluster, clickhouse.FollowOptions{Path: w.path, Every: time.Hour, Grace: 10 * time.Minute, Mine: func(*query.Session) bool { return true }})
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if s := f.State(); !s.Complete || s.Problem != "" {
					t.Errorf("a machine has sent %+v", s)
				}
			}
		})
	}
	for _, w := range all {
		next <- w
	}
	close(next)
	wg.Wait()
	return time.Since(began)
}
