package main

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // registers the driver

	"ingero/benchmarks/figure"
	"ingero/pkg/events"
)

const (
	ingestSeconds = 20
	rowsPerTx     = 50_000
	rowsPerRound  = 500_000
)

// ingest compares recording calls with inserting rows, in turns.
func ingest(dir string, o *options) error {
	runtime.LockOSThread() // the thread's CPU time separates generating the calls from recording them
	defer runtime.UnlockOSThread()
	var recorded, inserted, ratio figure.Spread
	for round := range o.rounds {
		s, err := newStream(o.rate, time.Second, uint64(round))
		if err != nil {
			return err
		}
		a, err := record(filepath.Join(dir, fmt.Sprint("calls", round)), s)
		if err != nil {
			return err
		}
		b, err := insert(filepath.Join(dir, fmt.Sprint("rows", round)), s.calls)
		if err != nil {
			return err
		}
		recorded, inserted, ratio = append(recorded, a), append(inserted, b), append(ratio, a/b)
	}
	fmt.Printf("ingest: million calls a second of a core, sealed and rolled up: %s\n", recorded.Text("%.2f"))
	fmt.Printf("        million rows a second of a core in SQLite: %s; ratio %s\n", inserted.Text("%.3f"), ratio.Text("%.1f"))
	figure.Report("ingest", recorded, "Mcalls/s")
	return nil
}

// record returns how many million calls are recorded per second of CPU time. It includes Close,
// which seals everything.
func record(path string, s *stream) (float64, error) {
	runtime.GC()
	from, own := cpu(unix.RUSAGE_SELF), s.own
	db, err := s.open(path, 0)
	if err != nil {
		return 0, err
	}
	for range ingestSeconds {
		if err := s.feed(db, 125, nil); err != nil {
			return 0, errors.Join(err, db.Close())
		}
	}
	if err := db.Close(); err != nil {
		return 0, err
	}
	return float64(s.fed()) / 1e6 / (cpu(unix.RUSAGE_SELF) - from - (s.own - own)), nil
}

// insert returns how many million rows are inserted per second of CPU time.
func insert(path string, calls []events.Call) (rate float64, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	const columns = 17
	names := strings.TrimSuffix(strings.Repeat("c%d INTEGER,", columns), ",")
	numbers := make([]any, columns)
	for i := range numbers {
		numbers[i] = i
	}
	if _, err := db.Exec(fmt.Sprintf("CREATE TABLE calls ("+names+")", numbers...)); err != nil {
		return 0, err
	}
	q := "INSERT INTO calls VALUES (" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + ")"
	runtime.GC()
	from := cpu(unix.RUSAGE_SELF)
	for n := 0; n < rowsPerRound; n += rowsPerTx {
		if err := insertSome(db, q, calls, n); err != nil {
			return 0, err
		}
	}
	return rowsPerRound / 1e6 / (cpu(unix.RUSAGE_SELF) - from), nil
}

// insertSome is one transaction.
func insertSome(db *sql.DB, q string, calls []events.Call, from int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	stmt, err := tx.Prepare(q)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	for i := range rowsPerTx {
		c := &calls[(from+i)%len(calls)]
		_, err := stmt.Exec(c.Start, c.Duration, c.OnCPU, c.Runnable, c.Blocked, c.Gap, c.GapOnCPU, c.GapRunnable, c.GapBlocked,
			int64(c.Args[0]), int64(c.Args[1]), int64(c.Args[2]), c.PID, c.TID, c.Result, uint16(c.Op), uint16(c.Flags))
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return errors.Join(stmt.Close(), tx.Commit())
}
