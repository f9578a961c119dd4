// Duckdbcheck lets DuckDB read the Parquet file of ingero export, and compares its figures for each
// operation with ingero's own: counts and sums must be equal, quantiles within 1 %. It reads the
// given database, or makes one.
//
// It needs node and npm, with which it installs DuckDB in a temporary directory.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// ask is the script that queries DuckDB. Numbers are strings, since they may be wide.
const ask = `import { DuckDBInstance } from '@duckdb/node-api';
const db = await DuckDBInstance.create(':memory:', { threads: '1' });
const c = await db.connect();
const t = process.hrtime.bigint();
const r = await c.runAndReadAll("SELECT op, sum(weight) AS calls, coalesce(sum(weight) FILTER (WHERE failed), 0) AS errors, " +
	"coalesce(sum(duration_ns * weight), 0) AS total, max(weight) AS most, coalesce(quantile_disc(duration_ns, 0.5), 0) AS p50, " +
	"coalesce(quantile_disc(duration_ns, 0.99), 0) AS p99 FROM '" + process.argv[2] + "' GROUP BY op");
const ms = Number(process.hrtime.bigint() - t) / 1e6;
const rows = r.getRowObjects().map(o => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, String(v)])));
console.log(JSON.stringify({ ms, rows }));
process.exit(0);
`

func main() {
	calls := flag.Int("calls", 1_000_000, "calls of the database that is made")
	flag.Parse()
	if err := run(flag.Arg(0), *calls); err != nil {
		fmt.Fprintln(os.Stderr, "duckdbcheck:", err)
		os.Exit(1)
	}
}

func run(path string, n int) (err error) {
	dir, err := os.MkdirTemp("", "duckdbcheck-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if path == "" {
		path = filepath.Join(dir, "made.db")
		if err := record(path, n); err != nil {
			return err
		}
	}
	r, err := query.Open(context.Background(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx := context.Background()
	file := filepath.Join(dir, "calls.parquet")
	res, err := write(ctx, r, file)
	if err != nil {
		return err
	}
	began := time.Now()
	stats, _, err := r.OpStats(ctx, query.Filter{Session: query.AllSessions}, query.Group{})
	if err != nil {
		return err
	}
	own := time.Since(began)
	answer, err := duckdb(dir, file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%d calls, %.1f bytes each; ingero %.0f ms, DuckDB %.0f ms\n", res.Calls, float64(info.Size())/float64(max(res.Calls, 1)), float64(own.Microseconds())/1e3, answer.MS)
	return compare(stats, answer.Rows)
}

func write(ctx context.Context, r *query.Reader, path string) (_ *export.Result, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return export.Parquet(ctx, f, r, query.Filter{Session: query.AllSessions}, nil)
}

type row struct{ Op, Calls, Errors, Total, Most, P50, P99 string }

type answer struct {
	MS   float64
	Rows []row
}

func duckdb(dir, file string) (*answer, error) {
	if out, err := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, "@duckdb/node-api").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install DuckDB: %w\n%s", err, out)
	}
	script := filepath.Join(dir, "ask.mjs")
	if err := os.WriteFile(script, []byte(ask), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("node", script, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask DuckDB: %w", err)
	}
	var a answer
	return &a, json.Unmarshal(out, &a)
}

// compare prints both answers, and fails if they differ.
func compare(stats []query.OpStat, rows []row) error {
	byOp := map[string]row{}
	for _, r := range rows {
		byOp[r.Op] = r
	}
	bad := 0
	if len(stats) != len(rows) || len(stats) == 0 {
		bad++
	}
	for i := range stats {
		s := &stats[i]
		r := byOp[s.Op.String()]
		own := row{s.Op.String(), fmt.Sprint(s.Sum.Calls), fmt.Sprint(s.Sum.Errors), fmt.Sprint(s.Sum.Total), r.Most, r.P50, r.P99}
		word := "same"
		if own != r {
			word = "DIFFERENT"
			bad++
		}
		if r.Most == "1" { // DuckDB has no weighted quantiles
			for q, text := range map[float64]string{0.5: r.P50, 0.99: r.P99} {
				var theirs float64
				if _, err := fmt.Sscan(text, &theirs); err != nil {
					return err
				}
				if ours := float64(s.Dur.Quantile(q)); math.Abs(ours-theirs) > theirs/100 {
					word = fmt.Sprintf("DIFFERENT: p%g is %.0f, DuckDB %.0f", 100*q, ours, theirs)
					bad++
				}
			}
		}
		fmt.Printf("%-28s %12s calls %10s errors %20s ns  %s\n", own.Op, own.Calls, own.Errors, own.Total, word)
	}
	if bad > 0 {
		return fmt.Errorf("%d answers differ", bad)
	}
	return nil
}

// record makes a database of n calls with widely spread durations.
func record(path string, n int) (err error) {
	now := time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{Node: "made", Started: now}, Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r := rand.New(rand.NewPCG(1, 2))
	batch := make([]events.Call, 0, 4096)
	at := now.UnixNano()
	for i := range n {
		ns := int64(4000 * math.Exp(r.NormFloat64()))
		c := events.Call{Start: at, Duration: ns, OnCPU: ns, PID: 4821 + uint32(i%4), TID: 5000 + uint32(i%8), Weight: 1, Op: events.Catalog[i%12].Op, Args: [4]uint64{uint64(i % 300)}}
		if i%97 == 0 {
			c.Flags, c.Result = events.CallFailed, 2
		}
		at += ns + 500
		if batch = append(batch, c); len(batch) == cap(batch) || i == n-1 {
			now = time.Unix(0, at)
			if err := db.Batch(&tick.Batch{Calls: batch}); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return db.Tick(&tick.Tick{Time: now, Seq: 1, Final: true})
}
