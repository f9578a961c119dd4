package session

import (
	"io"
	"testing"
	"time"

	"ingero/internal/tick"
)

// flood is a source that always has more: reading a batch takes a third of a second.
type flood struct {
	script
	clock *steps
	left  int
	tick  time.Duration // duration of a tick
}

func (f *flood) Totals(t *tick.Tick) error {
	f.clock.After(f.tick)
	return f.script.Totals(t)
}

func (f *flood) Poll(b *tick.Batch) (bool, error) {
	if f.left == 0 {
		return false, io.EOF
	}
	f.left--
	f.clock.After(time.Second / 3)
	if f.left < called { // the first batches have no calls
		b.Calls = append(b.Calls, calls(100, 100)...)
	}
	return true, nil
}

const batches, called = 30, 20

// While records arrive faster than they are read, there are ticks, which reduce the rate; and no
// record is skipped. Even with ticks longer than their interval there is time to read.
func TestTicksWhileRecordsDoNotEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes       time.Duration
		least, most int // ticks
		window      time.Duration
	}{
		"ticks are quick": {0, batches / 5, batches, 2 * time.Second},
		"ticks are slow":  {1500 * time.Millisecond, batches / 5, batches/2 + 1, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &steps{now: time.Unix(0, 0)}
			k := &keeper{}
			f := &flood{clock: clock, left: batches, tick: tt.takes}
			if err := Run(t.Context(), Config{Source: f, Sinks: []tick.Sink{k}, Clock: clock}); err != nil {
				t.Fatal(err)
			}
			if k.calls != called*100 || len(k.ticks) < tt.least || len(k.ticks) > tt.most {
				t.Errorf("%d calls and %d ticks, want %d calls and %d to %d ticks", k.calls, len(k.ticks), called*100, tt.least, tt.most)
			}
			for _, x := range k.ticks {
				if x.Window > tt.window {
					t.Errorf("a tick of %s", x.Window)
				}
			}
		})
	}
}
