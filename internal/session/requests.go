package session

import (
	"errors"
	"hash/maphash"

	"golang.org/x/sys/unix"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// RequestsOf is the setting of which processes' requests are measured.
type RequestsOf string

// The settings.
const (
	RequestsOfServers RequestsOf = "servers" // of recognized inference servers; the zero value too
	RequestsOfAll     RequestsOf = "all"     // of all traced processes
	RequestsOff       RequestsOf = "off"
)

// requests measures HTTP requests to servers on this machine. It attaches to the kernel's sockets
// once there is a server. Its methods are for the polling goroutine.
type requests struct {
	of     RequestsOf
	clock  decode.Clock
	report *reporter

	measured *probes.Requests // nil: there is no server yet, or it failed
	failed   bool
	seed     maphash.Seed
	seen     uint64          // a hash of the processes at the last look
	servers  map[uint32]bool // by PID
}

func newRequests(of RequestsOf, clock decode.Clock, report *reporter) *requests {
	return &requests{of: of, clock: clock, report: report, seed: maphash.MakeSeed()}
}

// tick fills a tick's requests and their drops, from traced and untraced processes.
func (q *requests) tick(t *tick.Tick, traced, others []tick.Process, final bool) {
	if q.of == RequestsOff || q.failed {
		return
	}
	err := q.watch(traced, others)
	if err == nil && q.measured != nil {
		err = q.drain(t, final)
	}
	if err != nil {
		q.failed = true
		err = errors.Join(err, q.detach())
		q.report.log.Debug("requests are not measured", "error", err)
		q.report.add(tick.Report{Kind: "requests-not-measured", Object: "requests", Why: err.Error()})
	}
}

func (q *requests) drain(t *tick.Tick, final bool) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	var err error
	if t.Requests, err = q.measured.Drain(t.Requests, uint64(now.Nano()), final); err != nil {
		return err
	}
	drops, err := q.measured.Drops()
	t.Drops = append(t.Drops, drops...)
	return err
}

// watch measures the requests of the servers among the processes, if these have changed.
func (q *requests) watch(traced, others []tick.Process) error {
	var h maphash.Hash
	h.SetSeed(q.seed)
	for _, list := range [][]tick.Process{traced, others} {
		for i := range list {
			maphash.WriteComparable(&h, list[i].PID)
			maphash.WriteComparable(&h, list[i].Ended)
			_, _ = h.WriteString(list[i].Cmdline)
		}
	}
	sum := h.Sum64()
	if sum == q.seen && q.servers != nil {
		return nil
	}
	q.seen, q.servers = sum, q.serversOf(traced, others)
	if q.measured == nil {
		if len(q.servers) == 0 {
			return nil
		}
		var err error
		if q.measured, err = probes.OpenRequests(q.clock.Wall); err != nil {
			return err
		}
	}
	return q.measured.Watch(q.servers)
}

// serversOf returns the running processes that take requests, by PID.
func (q *requests) serversOf(traced, others []tick.Process) map[uint32]bool {
	out := map[uint32]bool{}
	if q.of == RequestsOfAll {
		for i := range traced {
			if traced[i].Ended.IsZero() {
				out[traced[i].PID] = true
			}
		}
	}
	for _, x := range where.Servers(traced, others) {
		out[x.PID] = true
	}
	return out
}

// detach ends the measurement; the next tick still has what was measured.
func (q *requests) detach() error {
	if q.measured == nil {
		return nil
	}
	return q.measured.Detach()
}

func (q *requests) close() error {
	if q.measured == nil {
		return nil
	}
	measured := q.measured
	q.measured, q.failed = nil, true
	return measured.Close()
}
