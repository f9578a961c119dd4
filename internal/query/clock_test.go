package query

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/segment"
)

// A step of a machine's clock is reported; a reboot or another machine is not.
func TestClockSteps(t *testing.T) {
	boot := began.Add(-24 * time.Hour).UnixNano()
	session := func(id, node string, after, length time.Duration, offset int64) Session {
		at := began.Add(after)
		return Session{Session: segment.Session{ID: id, Node: node, Started: at, MonoOffset: offset}, Updated: at.Add(length), Ended: at.Add(length)}
	}
	const ms = time.Millisecond
	first := session("a", "n1", 0, time.Hour, boot)
	for name, tt := range map[string]struct {
		second Session
		want   []ClockStep
	}{
		"none":            {session("b", "n1", 2*time.Hour, time.Hour, boot), nil},
		"a small one":     {session("b", "n1", 2*time.Hour, time.Hour, boot+int64(99*ms)), nil},
		"forward":         {session("b", "n1", 2*time.Hour, time.Hour, boot+int64(100*ms)), []ClockStep{{"n1", "a", "b", began.Add(2 * time.Hour), 100 * ms}}},
		"back":            {session("b", "n1", 2*time.Hour, time.Hour, boot-int64(time.Minute)), []ClockStep{{"n1", "a", "b", began.Add(2 * time.Hour), -time.Minute}}},
		"started anew":    {session("b", "n1", 2*time.Hour, time.Hour, began.Add(90*time.Minute).UnixNano()), nil},
		"another machine": {session("b", "n2", 2*time.Hour, time.Hour, boot+int64(time.Minute)), nil},
		"not known":       {session("b", "n1", 2*time.Hour, time.Hour, 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, ClockSteps([]Session{tt.second, first}, 100*ms)); d != "" {
				t.Error(d)
			}
		})
	}
}
