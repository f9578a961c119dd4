// Store measures the cost of writing and querying a recording. It measures how many calls per
// second one core records, with a tick per second, rollups and the sealing of segments, compared
// with rows inserted into SQLite. It also measures the bytes per call, for recorded programs and in
// the worst case; how fast a large recording is queried, explained and drawn; and how closely the
// size limit is kept. It reads back and compares what it writes.
//
// Arguments name the parts to run. The part bytes traces programs of its own, which needs root. The
// benchmark throughput measures the agent's CPU time while it records.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"

	"golang.org/x/sys/unix"
)

// options are the flags.
type options struct {
	dir    string
	rounds int
	events int
	rate   int
	hours  float64
	cap    int64
	db     string
}

// part is one measurement, in a directory of its own.
type part struct {
	name string
	run  func(dir string, o *options) error
}

var parts = []part{{"ingest", ingest}, {"bytes", bytesPerCall}, {"read", read}, {"cap", bound}, {"explain", explain}, {"page", page}}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "where recordings are made, and removed again; a temporary directory")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of ingest")
	flag.IntVar(&o.events, "events", 100_000_000, "calls that read and page have")
	flag.IntVar(&o.rate, "rate", 300_000, "calls a second of ingest and read; cap has a fifteenth of it")
	flag.Float64Var(&o.hours, "hours", 0, "over how many hours read spreads its calls, in place of -rate; how many explain has")
	flag.Int64Var(&o.cap, "cap", 256, "bound of cap, 10^6 bytes")
	flag.StringVar(&o.db, "db", "", "database of page: it is kept, and made only once")
	profile := flag.String("cpuprofile", "", "write a profile there")
	flag.Parse()
	if err := measure(flag.Args(), &o, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

// measure runs the named parts, or all if there are none.
func measure(names []string, o *options, profile string) (err error) {
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q: they are ingest, bytes, read, cap, explain, page", name)
		}
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		if err := within(o.dir, func(dir string) error { return p.run(dir, o) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// within calls f with a new directory, which it removes afterwards.
func within(parent string, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(parent, "ingero-store-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

// cpu returns the CPU time of this process or thread, in seconds.
func cpu(who int) float64 {
	var r unix.Rusage
	_ = unix.Getrusage(who, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
