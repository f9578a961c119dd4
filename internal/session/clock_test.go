package session

import (
	"errors"
	"os"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/symbols"
	"ingero/internal/tick"
)

// States of GPUs have the times of the session's clock, wherever the wall clock is.
func TestClockOfGPUStates(t *testing.T) {
	clock := decode.Clock{Offset: 1 << 60}
	before := clock.Now()
	at := pollBy(clock).Now().UnixNano()
	if after := clock.Now(); at < before || at > after {
		t.Errorf("a state is of %d, want between %d and %d", at, before, after)
	}
}

// fixedClock is a clock that does not run.
type fixedClock struct {
	Clock
	at time.Time
}

func (c fixedClock) Now() time.Time { return c.at }

// timed is a source with a clock.
type timed struct{ *invented }

func (timed) Capabilities() Capabilities {
	return Capabilities{Clock: fixedClock{at: time.Unix(7, 0)}, Proc: proc.FS{Offset: 7}}
}

// Ticks have the clock of the calls: a step of the wall clock between the start of the source and that of
// the session does not part them.
func TestSessionHasTheClockOfItsSource(t *testing.T) {
	r, err := begin(Config{Source: timed{}})
	if err != nil {
		t.Fatal(err)
	}
	r.names.Close()
	r.stacks.close()
	if err := r.fan.close(); err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(7, 0); !r.started.Equal(want) || r.faults.fs.Offset != 7 {
		t.Errorf("the session started at %v, want %v; the offset of processes is %d", r.started, want, r.faults.fs.Offset)
	}
	l := &Live{clock: &clockWatch{of: decode.Clock{Offset: 1 << 60}}}
	now, offset := l.Clock()
	before := l.clock.of.Now()
	if at := now().UnixNano(); at < before || at > l.clock.of.Now() || offset != 1<<60 {
		t.Errorf("the clock of the recording shows %d, offset %d", at, offset)
	}
}

// A step of the wall clock before the session's clock was read makes no process look like a later one, or
// a later one like it.
func TestProcessesByTheSessionsClock(t *testing.T) {
	real, err := decode.Now()
	if err != nil {
		t.Fatal(err)
	}
	pid := uint32(os.Getpid())
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		clock := decode.Clock{Offset: real.Offset + int64(step)}
		m, frames := newMemory(clock), newResolver(nil, clock).frames
		now := clock.Now()
		for _, tt := range []struct {
			at   int64
			want error
		}{{now, nil}, {now - int64(30*time.Minute), symbols.ErrEnded}} {
			if _, err := m.Strings(pid, tt.at, nil); !errors.Is(err, tt.want) {
				t.Errorf("step %v: names as of %v: %v, want %v", step, time.Duration(tt.at-now), err, tt.want)
			}
		}
		j := newJoiner(newLive(&LiveOptions{}, nil, nil, nil, clock).Capabilities().Proc)
		j.batch([]tick.Xid{{Time: now, SaidPID: pid}}, nil, nil)
		if xids := j.tick(time.Unix(0, now), true, nil, nil); len(xids) != 1 || xids[0].PID != pid {
			t.Errorf("step %v: faults %+v", step, xids)
		}
		if frames.seen(pid); len(frames.news) != 1 || frames.fs.Offset != clock.Offset {
			t.Errorf("step %v: mappings %+v", step, frames.news)
		}
	}
}
