package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Delays double up to the maximum, and differ by up to a fifth.
func TestDelaysGrow(t *testing.T) {
	for range 100 {
		d := Delays{First: time.Second, Most: 5 * time.Second}
		spread := map[time.Duration]bool{}
		for i, want := range []time.Duration{1, 2, 4, 5, 5, 5} {
			want *= time.Second
			got := d.Next()
			if got < want*4/5 || got > want*6/5 {
				t.Fatalf("delay %d = %s, want %s plus or minus a fifth", i, got, want)
			}
			spread[got-want] = true
		}
		if len(spread) == 1 {
			t.Error("the delays are not random")
		}
	}
}

// A delay never exceeds the maximum because of an overflow.
func TestDelaysDoNotOverflow(t *testing.T) {
	d := Delays{First: 1, Most: 1 << 60}
	for range 200 {
		if got := d.Next(); got < 0 || got > 1<<60*6/5 {
			t.Fatalf("delay = %d", got)
		}
	}
}

// Sleep lasts as long as the delay, by the clock, or until the context ends.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("slept for %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("slept for %s: %v", time.Since(began), err)
		}
	})
}
