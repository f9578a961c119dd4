//go:build measure

package store

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// BenchmarkCountedTick measures a tick in which each process made calls of four operations: the
// store's CPU time and the size of its rows of counts. The kernel counts at most 8,192 operations
// of processes, so 2,000 such processes are close to the maximum.
func BenchmarkCountedTick(b *testing.B) {
	const ops = 4
	for _, tt := range []struct {
		processes int
		mode      string
	}{{1, "trace"}, {100, "trace"}, {2000, "trace"}, {2000, Imported}} { // an import has no counts
		b.Run(strconv.Itoa(tt.processes)+"-"+tt.mode, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "x.db")
			now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
			db, err := Open(Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: "s", Started: now, Mode: tt.mode}})
			if err != nil {
				b.Fatal(err)
			}
			x := tick.Tick{Started: now}
			for pid := range uint32(tt.processes) {
				for i := range ops {
					x.Ops = append(x.Ops, tick.Op{PID: pid + 1, Op: events.Catalog[i].Op, Hist: &stats.Hist{}, Dur: &stats.Sketch{}, DurLast: &stats.Sketch{}})
				}
			}
			began := cpuTime(b)
			for b.Loop() {
				now = now.Add(time.Second)
				x.Time, x.Seq = now, x.Seq+1
				for i := range x.Ops {
					s := &x.Ops[i].Sum
					s.Calls, s.Done, s.Total = s.Calls+100, s.Done+100, s.Total+500_000
				}
				if err := db.Tick(&x); err != nil {
					b.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(x.Seq)/1e6, "cpu-ms/tick")
			b.ReportMetric(countedBytes(b, path)/float64(x.Seq), "counted-bytes/tick")
		})
	}
}

// cpuTime returns this process's CPU time in ns.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// countedBytes returns the size of the table counted.
func countedBytes(b *testing.B, path string) (n float64) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRow("SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name = 'counted'").Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
