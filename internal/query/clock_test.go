package query

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/clock"
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

// The current time is that of the recording being made, also if the wall clock was set by seconds, the
// machine slept, or the trace is stopped. It is never after both the last tick and the wall clock.
func TestNow(t *testing.T) {
	offset, err := clock.Offset()
	if err != nil {
		t.Fatal(err)
	}
	session := func(state string, ahead time.Duration) Session {
		return Session{Session: segment.Session{MonoOffset: offset - int64(ahead)}, State: state, Updated: began}
	}
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		all  []Session
		wall time.Duration // since began
		want time.Duration
	}{
		"nothing recorded":  {nil, time.Hour, time.Hour},
		"ended":             {[]Session{session("ended", time.Hour)}, time.Hour, time.Hour},
		"not set":           {[]Session{session("running", 0)}, 500 * ms, 500 * ms},
		"set forward":       {[]Session{session("running", 30*time.Second)}, 30*time.Second + 500*ms, 500 * ms},
		"set back":          {[]Session{session("ended", 0), session("running", -30*time.Second)}, -30*time.Second + 500*ms, 1},
		"stopped":           {[]Session{session("running", 0)}, time.Hour, time.Hour},
		"set while stopped": {[]Session{session("running", 10*time.Hour)}, 11 * time.Hour, time.Hour},
		"clock not known":   {[]Session{{State: "running", Updated: began}}, time.Hour, 1},
		"small clock skew":  {[]Session{session("running", 2*time.Hour)}, -500 * ms, -500 * ms},

		"clock of an earlier boot":                     {[]Session{session("running", 2*time.Hour)}, time.Hour, 1},
		"clock of a later boot":                        {[]Session{session("running", -2*time.Hour)}, time.Hour, time.Hour},
		"clock of an earlier boot, tick in the future": {[]Session{session("running", 2*time.Hour)}, -time.Hour, 1},
		"clock of a later boot, tick in the future":    {[]Session{session("running", -2*time.Hour)}, -time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Now(tt.all, began.Add(tt.wall)).Sub(began); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// While a recording is being made, the steps of the wall clock since its start are known.
func TestAhead(t *testing.T) {
	offset, err := clock.Offset()
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		state string
		ahead time.Duration // by the offset
		wall  time.Duration // since the last tick
		want  time.Duration
	}{
		"not set":            {"running", 0, 500 * ms, 0},
		"set forward":        {"running", 30 * time.Second, 30*time.Second + 500*ms, 30 * time.Second},
		"set back":           {"running", -30 * time.Second, -30*time.Second + 500*ms, -30 * time.Second},
		"ended":              {"ended", 30 * time.Second, 30*time.Second + 500*ms, 0},
		"of an earlier boot": {"running", 2 * time.Hour, time.Hour, 0},
		"of another machine": {"running", -2 * time.Hour, 500 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := Session{Session: segment.Session{MonoOffset: offset - int64(tt.ahead)}, State: tt.state, Updated: began}
			if got := Ahead(&s, began.Add(tt.wall)).Round(ms); got != tt.want {
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
