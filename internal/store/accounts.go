package store

import (
	"encoding/json"
	"fmt"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/store/retention"
	"ingero/internal/tick"
)

var sqlAccount = `REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// savedAccounts holds the accounts as of a tier's last rows. The next rows hold what was added
// since.
type savedAccounts struct {
	since time.Time // zero: the session's start
	was   map[uint32]tick.Breakdown
	slow  map[loopKey][]tick.LoopStep // the slowest steps since
}

// loopKey identifies a loop of a process, as [tick.Loop] does.
type loopKey struct {
	pid  uint32
	id   uint64
	name string
}

// keyOf returns the key of a process's loop; the loop may be nil.
func keyOf(pid uint32, l *tick.Loop) loopKey {
	if l == nil {
		return loopKey{pid: pid}
	}
	return loopKey{pid, l.ID, l.Range}
}

// note adds the slowest steps of a loop's last tick.
func (a *savedAccounts) note(pid uint32, l *tick.Loop) {
	if len(l.Recent) > 0 {
		k := keyOf(pid, l)
		a.slow[k] = tick.Slower(a.slow[k], l.Recent...)
	}
}

// noteAccounts adds a tick's slowest steps.
func (v *saver) noteAccounts(t *tick.Tick) {
	for i := range v.spent {
		a := &v.spent[i]
		if a.since.IsZero() {
			a.since, a.slow = t.Started, map[loopKey][]tick.LoopStep{}
		}
		for j := range t.Breakdowns {
			b := &t.Breakdowns[j]
			if b.Loop == nil {
				continue
			}
			a.note(b.PID, b.Loop)
			for _, l := range b.Loop.Others {
				a.note(b.PID, l)
			}
		}
	}
}

// accounts writes where the time went since a tier's last rows, once the tier's length has elapsed.
func (v *saving) accounts(t *tick.Tick) error {
	for i, tier := range retention.Accounts {
		a := &v.spent[i]
		if t.Time.Sub(a.since) < tier.Length && !t.Final {
			continue
		}
		now := make(map[uint32]tick.Breakdown, len(t.Breakdowns))
		for j := range t.Breakdowns {
			b := &t.Breakdowns[j]
			was := a.was[b.PID]
			now[b.PID] = *b
			if added := b.Since(&was); added.Elapsed > 0 {
				if err := v.account(&added, a.slow[keyOf(b.PID, added.Loop)], tier.Length, a.since, t.Time); err != nil {
					return err
				}
			}
		}
		v.done = append(v.done, func() { a.since, a.was, a.slow = t.Time, now, map[loopKey][]tick.LoopStep{} })
	}
	return nil
}

func (v *saving) account(b *tick.Breakdown, slow []tick.LoopStep, length time.Duration, from, to time.Time) error {
	loop, err := loopOf(b.Loop, slow)
	if err != nil {
		return err
	}
	detail, err := json.Marshal(accountDetail{sharesJSON(b.RunnableBy), sharesJSON(b.BlockedOn), threadsJSON(b.ByThread), loop, codesJSON(b.Code), openJSON(b.Open)})
	if err != nil {
		return fmt.Errorf("account of process %d: %w", b.PID, err)
	}
	var lengths any
	if b.Lengths != nil && b.Lengths.Count() > 0 {
		blob, err := b.Lengths.MarshalBinary()
		if err != nil {
			return err
		}
		lengths = blob
	}
	return v.exec(&sqlAccount, v.id, int64(length/time.Second), to.UnixNano(), from.UnixNano(), b.PID, b.Threads, int64(b.Elapsed),
		int64(b.GPUWait), int64(b.CallCPU), int64(b.GapCPU), int64(b.Runnable), int64(b.Throttled), int64(b.Blocked),
		int64(b.Critical), int64(b.CriticalMin), int64(b.CriticalMax), b.Steps, lengths, string(detail))
}

// AccountColumns are the columns that [ScanAccount] reads.
const AccountColumns = `pid, threads, elapsed_ns, gpu_wait_ns, call_cpu_ns, gap_cpu_ns, runnable_ns, throttled_ns, blocked_ns,
	critical_ns, critical_min_ns, critical_max_ns, steps, lengths, detail`

// ScanAccount reads a row that ends with [AccountColumns]; more receives the columns before.
func ScanAccount(scan func(...any) error, b *tick.Breakdown, more ...any) error {
	var lengths, detail []byte
	err := scan(append(more, &b.PID, &b.Threads, &b.Elapsed, &b.GPUWait, &b.CallCPU, &b.GapCPU, &b.Runnable, &b.Throttled, &b.Blocked,
		&b.Critical, &b.CriticalMin, &b.CriticalMax, &b.Steps, &lengths, &detail)...)
	if err != nil {
		return err
	}
	if lengths != nil {
		b.Lengths = &stats.Sketch{}
		if err := b.Lengths.UnmarshalBinary(lengths); err != nil {
			return err
		}
		b.StepP50, b.StepP99 = time.Duration(b.Lengths.Quantile(0.5)), time.Duration(b.Lengths.Quantile(0.99))
	}
	var d accountDetail
	if err := json.Unmarshal(detail, &d); err != nil {
		return fmt.Errorf("account of process %d: %w: %w", b.PID, log.ErrCorrupt, err)
	}
	b.RunnableBy, b.BlockedOn, b.Code = sharesOf(d.RunnableBy), sharesOf(d.BlockedOn), codesOf(d.Code)
	for i := range d.Threads {
		b.ByThread = append(b.ByThread, d.Threads[i].time())
	}
	if d.Open != nil {
		b.Open = new(d.Open.step())
	}
	b.Loop, err = d.Loop.loop()
	return err
}
