package session

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Each kind of change decides whether a tick is idle.
func TestDeadband(t *testing.T) {
	began := time.Unix(1000, 0)
	host := tick.Host{CPU: 0.5, CPUs: 4, MemTotal: 100 << 30, MemAvail: 50 << 30, SwapTotal: 10 << 30, Load: [3]float64{1, 1, 1}}
	sum := func(kind tick.HostEvent, pid uint32) []tick.HostSum {
		return []tick.HostSum{{HostKey: tick.HostKey{Kind: kind, PID: pid}, Count: 1, NS: 5}}
	}
	for _, x := range []struct {
		name   string
		o      Deadband
		change func(*tick.Tick)
		idle   bool
	}{
		{"nothing", Deadband{Percent: 5}, func(*tick.Tick) {}, true},
		{"no deadband", Deadband{Heartbeat: time.Minute}, func(*tick.Tick) {}, false},
		{"CPU, a little", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.CPU = 0.549 }, true},
		{"CPU", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.CPU = 0.44 }, false},
		{"memory, a little", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.MemAvail -= 4 << 30 }, true},
		{"memory", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.MemAvail -= 5 << 30 }, false},
		{"swap", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.SwapUsed = 1 << 30 }, false},
		{"load", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.Load[0] = 1.3 }, false},
		{"a CPU less", Deadband{Percent: 5}, func(x *tick.Tick) { x.Host.CPUs = 3 }, false},
		{"a call", Deadband{Percent: 5}, func(x *tick.Tick) {
			x.Ops = []tick.Op{{PID: 7, Op: events.Op(1), Last: tick.Counts{Calls: 1}}}
		}, false},
		{"an old call", Deadband{Percent: 5}, func(x *tick.Tick) { x.Ops = []tick.Op{{PID: 7, Op: events.Op(1), Sum: tick.Counts{Calls: 1}}} }, true},
		{"a record", Deadband{Percent: 5}, func(x *tick.Tick) { x.Records++ }, false},
		{"a chain", Deadband{Percent: 5}, func(x *tick.Tick) { x.Chains = []tick.Chain{{}} }, false},
		{"disk of a traced process", Deadband{Percent: 5}, func(x *tick.Tick) { x.HostSums = sum(tick.HostDiskRead, 7) }, false},
		{"disk of another", Deadband{Percent: 5}, func(x *tick.Tick) { x.HostSums = sum(tick.HostDiskRead, 8) }, true},
		{"an OOM kill", Deadband{Percent: 5}, func(x *tick.Tick) { x.HostSums = sum(tick.HostOOM, 8) }, false},
		{"the end", Deadband{Percent: 5}, func(x *tick.Tick) { x.Final = true }, false},
		{"before the heartbeat", Deadband{Percent: 5, Heartbeat: 1100 * time.Millisecond}, func(*tick.Tick) {}, true},
		{"the heartbeat", Deadband{Percent: 5, Heartbeat: time.Second}, func(*tick.Tick) {}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			q := idleFilter{Deadband: x.o}
			first := &tick.Tick{Time: began, Host: host, Records: 3, Processes: []tick.Process{{PID: 7}}}
			if idle, _ := q.look(first); idle {
				t.Error("the first tick is idle")
			}
			next := &tick.Tick{Time: began.Add(time.Second), Host: host, Records: 3, Processes: first.Processes}
			x.change(next)
			q.chains = len(next.Chains)
			if idle, _ := q.look(next); idle != x.idle {
				t.Errorf("idle %v, want %v", idle, x.idle)
			}
		})
	}
}

// Slow drift is reported in the end. Sums of idle ticks are reported with the next non-idle tick.
func TestDeadbandLosesNothing(t *testing.T) {
	q := idleFilter{Deadband: Deadband{Percent: 6.25}}
	var idle, reported int
	var sums uint64
	for i := range 100 {
		x := &tick.Tick{Time: time.Unix(int64(i), 0), Host: tick.Host{CPUs: 1, CPU: float64(i) / 128}, Final: i == 99,
			HostSums: []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 8}, Count: 1}}}
		quiet, events := q.look(x)
		for _, s := range events {
			sums += s.Count
		}
		if quiet {
			idle++
		} else {
			reported++
		}
	}
	if reported != 14 || sums != 100 {
		t.Errorf("%d of %d ticks are reported, want 14, with %d of 100 events", reported, reported+idle, sums)
	}
}
