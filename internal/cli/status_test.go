package cli

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

func TestStatusHealth(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	well := wire.TraceState{Holder: wire.Holder{PID: 7, Command: "ingero trace", DB: "a.db", Since: now.Add(-time.Minute)}, Updated: now}
	for name, tt := range map[string]struct {
		change func(s *wire.TraceState)
		want   error
		text   string
	}{
		"healthy":       {func(*wire.TraceState) {}, nil, "pid 7, healthy"},
		"silent":        {func(s *wire.TraceState) { s.Updated = now.Add(-9 * time.Second) }, exitCode(exitDegraded), "not published its state for 9s"},
		"losing":        {func(s *wire.TraceState) { s.LastLoss = now; s.Drops = map[string]uint64{"ring-full": 3} }, exitCode(exitDegraded), "ring-full 3"},
		"lost long ago": {func(s *wire.TraceState) { s.LastLoss = now.Add(-time.Hour) }, nil, "healthy"},
		"not recording": {func(s *wire.TraceState) { s.Problems = []string{"not recording: the disk is full"} }, exitCode(exitDegraded), "not recording"},
		"hostile name":  {func(s *wire.TraceState) { s.Processes = []wire.TracedProcess{{PID: 8, Comm: "\x1b[2Jx\ny"}} }, nil, "Processes    ?[2Jx; y (8)"},
	} {
		t.Run(name, func(t *testing.T) {
			state := well
			tt.change(&state)
			s := judge(&state, nil, now)
			if got := statusExit(s); got != tt.want {
				t.Errorf("exit = %v, want %v", got, tt.want)
			}
			if got := statusText(s, now); !strings.Contains(got, tt.text) {
				t.Errorf("text lacks %q:\n%s", tt.text, got)
			}
		})
	}
}

func TestStatusOfNoTrace(t *testing.T) {
	s, err := readStatus(testPlace(t), time.Now())
	if err != nil || s.Running || statusExit(s) != exitCode(exitFailed) {
		t.Errorf("status = %+v, %v, want one that is not running", s, err)
	}
}

func TestPublisherTellsLossesAndProblems(t *testing.T) {
	place := testPlace(t)
	l, err := place.Acquire(wire.Holder{Command: "ingero trace"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	var disk error
	p := &publisher{lock: l, log: slog.New(slog.DiscardHandler), database: func() (int64, error) { return 4096, disk }}
	at := time.Unix(1000, 0).UTC()
	tickWith := func(full, thinned uint64) wire.TraceState {
		t.Helper()
		at = at.Add(time.Second)
		err := p.Tick(&tick.Tick{Time: at, Drops: []tick.Drop{{Reason: "ring-full", Count: full}, {Reason: "thinned", Count: thinned}},
			Ops: []tick.Op{{Sum: tick.Counts{Calls: 5}}, {Sum: tick.Counts{Calls: 6}}}, Libraries: []tick.Library{{Probes: 20}, {Probes: 3}},
			Processes: []tick.Process{{PID: 1, Comm: "train"}, {PID: 2, Comm: "gone", Ended: at}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := place.State(wire.Holder{PID: os.Getpid(), UID: uint32(os.Geteuid())})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := tickWith(0, 9)
	if s.Calls != 11 || s.Probes != 23 || len(s.Processes) != 1 || s.DBBytes != 4096 || !s.LastLoss.IsZero() || len(s.Problems) != 0 {
		t.Errorf("first state = %+v", s)
	}
	lostAt := at.Add(time.Second)
	if s = tickWith(1, 9); !s.LastLoss.Equal(lostAt) {
		t.Errorf("last loss = %v, want %v", s.LastLoss, lostAt)
	}
	disk = errors.New("no space")
	if s = tickWith(1, 10); !s.LastLoss.Equal(lostAt) || len(s.Problems) != 1 {
		t.Errorf("state = %+v, want the old loss and one problem", s)
	}
}

// A step of the wall clock during a trace changes neither its health nor how long calls are open.
func TestStatusAfterAClockStep(t *testing.T) {
	place := testPlace(t)
	l, err := place.Acquire(wire.Holder{Command: "ingero trace"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		p := &publisher{lock: l, log: slog.New(slog.DiscardHandler)}
		at := time.Unix(1_700_000_000, 0)
		ago := func(d time.Duration) int64 { return at.Add(-d).UnixNano() }
		publish := func(lost uint64) {
			t.Helper()
			x := &tick.Tick{Time: at, Ahead: ahead, Drops: []tick.Drop{{Reason: "ring-full", Count: lost}},
				Processes: []tick.Process{{PID: 7, Comm: "train", Mapped: at}},
				Threads: []tick.Thread{{PID: 7, TID: 7, Until: at.UnixNano(), Open: []tick.OpenCall{{Op: 0x0110, Start: ago(9 * time.Second)}},
					Now: tick.ThreadState{State: events.WaitBlocked, Since: ago(8 * time.Second)}}},
				RollCalls: []tick.RollCall{{Since: ago(7 * time.Second), Missing: []tick.Missing{{Lives: true}}}}}
			if err := p.Tick(x); err != nil {
				t.Fatal(err)
			}
		}
		status := func(after time.Duration) *wire.Status {
			t.Helper()
			s, err := place.State(wire.Holder{PID: os.Getpid(), UID: uint32(os.Geteuid())})
			if err != nil {
				t.Fatal(err)
			}
			return judge(&s, nil, at.Add(ahead+after))
		}
		publish(0)
		s := status(time.Second)
		if !s.Healthy || !s.Trace.LastLoss.IsZero() || !s.Trace.Processes[0].Mapped.Equal(at.Add(ahead)) || !s.Trace.Processes[0].Attached.IsZero() {
			t.Errorf("%v: %+v, %+v", ahead, s, s.Trace)
		}
		if s := status(10 * time.Second); s.Healthy {
			t.Errorf("%v: a trace that is silent for 10 s is healthy", ahead)
		}
		stuck := stuckOf(s.Trace, at.Add(ahead+time.Second), time.Second, nil)
		if len(stuck.Problems) > 0 || len(stuck.Calls) != 1 || stuck.Calls[0].OpenNS != 9e9 || stuck.Calls[0].StateNS != 8e9 || stuck.RollCalls[0].WaitNS != 7e9 {
			t.Errorf("%v: %+v", ahead, stuck)
		}
		publish(1)
		if s := status(59 * time.Second); len(s.Problems) != 2 {
			t.Errorf("%v: a loss 59 s ago: %q", ahead, s.Problems)
		}
	}
}
