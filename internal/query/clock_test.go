package query

import (
	"errors"
	"path/filepath"
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

// The current time is that of the recording being made, if the wall clock was set or the machine slept.
func TestNow(t *testing.T) {
	running := Session{State: "running", Updated: began}
	for name, tt := range map[string]struct {
		all  []Session
		wall time.Duration // since began
		want time.Duration
	}{
		"nothing recorded": {nil, time.Hour, time.Hour},
		"ended":            {[]Session{{State: "ended", Updated: began}}, time.Hour, time.Hour},
		"a late tick":      {[]Session{running}, 59 * time.Second, 59 * time.Second},
		"set forward":      {[]Session{running}, time.Hour, 1},
		"set back":         {[]Session{{State: "ended"}, running}, -time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Now(tt.all, began.Add(tt.wall)).Sub(began); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// The session that is being recorded is the latest one, whatever the clock shows. Once it has ended, the
// order is that of the starts.
func TestLatestWhileTheClockIsBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	first := record(t, path, segment.Session{ID: "one"})
	first.second()
	first.close()
	second := record(t, path, segment.Session{ID: "two", Started: time.Unix(30, 0)}) // the clock is not set yet
	second.second()
	r := openReader(t, path)
	want := func(latest string) {
		t.Helper()
		all, err := r.Sessions(t.Context())
		one, err2 := r.Session(t.Context(), "")
		if err := errors.Join(err, err2); err != nil || len(all) != 2 || all[0].ID != latest || one.ID != latest {
			t.Errorf("latest is %+v (%v), want %s", one, err, latest)
		}
	}
	want("two")
	second.close()
	want("one")
}
