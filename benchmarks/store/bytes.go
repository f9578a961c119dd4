package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ingero/internal/proc"
	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// programs are the recorded programs.
var programs = [][]string{
	{"train", "--kernel-us", "50", "--seconds", "8", "--hold"},
	{"train", "--kernel-us", "50", "--threads", "4", "--seconds", "8", "--hold"},
	{"infer", "--rate", "2000", "--kernel-us", "100", "--seconds", "8", "--hold"},
	{"loader", "--batches", "10000", "--hold"},
	{"multi", "--case", "plain", "--count", "200000", "--hold"},
	{"calls", "cudaLaunchKernel", "400000", "--rate", "50000", "--start-on-stdin"},
}

// bytesPerCall records programs, and the worst case for the store. It reads each call back to
// compare it.
func bytesPerCall(dir string, o *options) error {
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		return err
	}
	fmt.Printf("%-44s %9s %9s | %-21s | %s\n", "bytes a call", "calls", "waits", "all that is recorded", "calls alone")
	fmt.Printf("%-44s %9s %9s | %10s %10s | %10s %10s\n", "", "", "", "hot", "sealed", "hot", "sealed")
	for i, program := range programs {
		k, err := trace(filepath.Join(dir, fmt.Sprint("live", i)), stack, program)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(program, " "), err)
		}
		if err := k.again(filepath.Join(dir, fmt.Sprint("again", i)), strings.Join(program[:len(program)-1], " ")); err != nil {
			return err
		}
	}
	for i, worst := range []struct {
		name string
		args func(r *rand.Rand, a *[events.MaxArgs]uint64)
	}{
		{"stream, each with an address of its own", func(r *rand.Rand, a *[events.MaxArgs]uint64) { a[0] = 0x7f00_0000_0000 + r.Uint64N(1<<34)*256 }},
		{"stream, 4 arguments of 8 random bytes", func(r *rand.Rand, a *[events.MaxArgs]uint64) {
			for i := range a {
				a[i] = r.Uint64()
			}
		}},
	} {
		s, err := newStream(o.rate, time.Second, 1)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(1, 2))
		k := &keeper{}
		for j := range s.calls {
			worst.args(r, &s.calls[j].Args)
		}
		const batches = 125
		for j := range batches {
			k.batches = append(k.batches, kept{began.Add(time.Second * time.Duration(j+1) / batches), s.calls[len(s.calls)*j/batches : len(s.calls)*(j+1)/batches]})
		}
		if err := k.again(filepath.Join(dir, fmt.Sprint("worst", i)), worst.name); err != nil {
			return err
		}
	}
	return nil
}

// kept is a batch and its time of arrival.
type kept struct {
	at    time.Time
	calls []events.Call
}

// keeper records calls, and keeps them for comparison.
type keeper struct {
	db          *store.DB
	batches     []kept
	waits       int
	hot, sealed int64 // bytes of the log, before and after sealing
}

func (k *keeper) Batch(b *tick.Batch) error {
	k.waits += len(b.Waits)
	if len(b.Calls) > 0 {
		k.batches = append(k.batches, kept{time.Now(), append([]events.Call(nil), b.Calls...)})
	}
	return k.db.Batch(b)
}

func (k *keeper) Tick(t *tick.Tick) error { return k.db.Tick(t) }

func (k *keeper) Close() (err error) {
	if k.hot, err = logBytes(k.db.Path()); err != nil {
		return err
	}
	if err := k.db.Close(); err != nil {
		return err
	}
	k.sealed, err = logBytes(k.db.Path())
	return err
}

// logBytes returns the size of the database's segments. A short run has one.
func logBytes(path string) (n int64, err error) {
	segments, err := segment.List(log.Dir(store.LogDir(path)))
	if len(segments) != 1 && err == nil {
		err = fmt.Errorf("the log has %d segments: the run is too long to weigh them apart", len(segments))
	}
	for _, s := range segments {
		n += s.Bytes
	}
	return n, err
}

func (k *keeper) calls() (n int) {
	for _, b := range k.batches {
		n += len(b.calls)
	}
	return n
}

// trace records a program until it ends.
func trace(path string, stack sim.Stack, program []string) (k *keeper, err error) {
	cmd := exec.Command(stack.Program(program[0]), program[1:]...)
	cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC=block")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, unless it had exited
	}()
	live, err := session.OpenLive(context.Background(), session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(cmd.Process.Pid)}}})
	if err != nil {
		return nil, err
	}
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{Node: "bench"}})
	if err != nil {
		return nil, errors.Join(err, live.Close())
	}
	k = &keeper{db: db}
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		return nil, errors.Join(err, live.Close(), db.Close())
	}
	if err := session.Run(context.Background(), session.Config{Source: live, Sinks: []tick.Sink{k}}); err != nil {
		return nil, err
	}
	return k, k.same(path)
}

// same reads each call back and compares it.
func (k *keeper) same(path string) error {
	r, err := query.Open(context.Background(), path)
	if err != nil {
		return err
	}
	n, batch, at := 0, 0, 0
	differs := -1
	_, err = r.Each(context.Background(), query.Filter{}, func(_ *query.Session, c *events.Call, number uint64) bool {
		for batch < len(k.batches) && at == len(k.batches[batch].calls) {
			batch, at = batch+1, 0
		}
		if batch == len(k.batches) || number != uint64(n) || *c != k.batches[batch].calls[at] {
			differs = n
			return false
		}
		n, at = n+1, at+1
		return true
	})
	if err == nil && (differs >= 0 || n != k.calls()) {
		err = fmt.Errorf("of %d calls %d were read back as they were", k.calls(), n)
	}
	return errors.Join(err, r.Close())
}

// again records only the calls, at their times, and prints the size of both recordings.
func (k *keeper) again(path, name string) error {
	now := k.batches[0].at
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{Node: "bench"}, Now: func() time.Time { return now },
		AfterFunc: func(time.Duration, func()) func() bool { return func() bool { return true } }})
	if err != nil {
		return err
	}
	alone := &keeper{db: db, batches: k.batches}
	for _, b := range k.batches {
		now = b.at
		if err := db.Batch(&tick.Batch{Calls: b.calls}); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	final := &tick.Tick{Time: now, Seq: 1, Final: true, Records: uint64(k.calls())}
	if err := errors.Join(db.Tick(final), alone.Close()); err != nil {
		return err
	}
	if err := alone.same(path); err != nil {
		return err
	}
	per := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", float64(n)/float64(k.calls()))
	}
	fmt.Printf("%-44s %9d %9d | %10s %10s | %10s %10s\n", name, k.calls(), k.waits, per(k.hot), per(k.sealed), per(alone.hot), per(alone.sealed))
	return nil
}
