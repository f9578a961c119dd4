package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store/segment"
)

var zoneCET = time.FixedZone("CET", 3600)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, zoneCET)
	for in, want := range map[string]time.Time{
		"14:59":                     time.Date(2026, 3, 2, 14, 59, 0, 0, zoneCET),
		"15:00":                     now,
		"15:00:01":                  time.Date(2026, 3, 1, 15, 0, 1, 0, zoneCET), // today's is in the future
		"2026-01-02 15:40":          time.Date(2026, 1, 2, 15, 40, 0, 0, zoneCET),
		"2026-01-02 15:40:30":       time.Date(2026, 1, 2, 15, 40, 30, 0, zoneCET),
		"2026-01-02T15:40":          time.Date(2026, 1, 2, 15, 40, 0, 0, zoneCET),
		"2026-01-02":                time.Date(2026, 1, 2, 0, 0, 0, 0, zoneCET),
		"2026-01-02T15:40:00Z":      time.Date(2026, 1, 2, 15, 40, 0, 0, time.UTC),
		"2026-01-02T15:40:00-05:00": time.Date(2026, 1, 2, 20, 40, 0, 0, time.UTC),
		"1767368400":                time.Date(2026, 1, 2, 15, 40, 0, 0, time.UTC),
		"1767368400.25":             time.Date(2026, 1, 2, 15, 40, 0, 250e6, time.UTC),
	} {
		got, _, err := parseTime(in, now)
		if err != nil || !got.Equal(want) || got.Location() != zoneCET {
			t.Errorf("parseTime(%q) = %v, %v, want %v in the reader's zone", in, got, err, want)
		}
	}
	for _, in := range []string{"", "now", "25:00", "15", "1540", "2026-13-01", "1767368400000", "1767368400.", "-5", "0001-01-01", "2300-01-01", "15:40 "} {
		if got, _, err := parseTime(in, now); err == nil {
			t.Errorf("parseTime(%q) = %v, want an error", in, got)
		}
	}
}

func TestWindow(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, zoneCET)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tt := range map[string]struct {
		f    timeFlags
		want window
	}{
		"nothing":               {timeFlags{}, window{latest: true}},
		"since":                 {timeFlags{since: "1h30m"}, window{from: ago(90 * time.Minute), to: now}},
		"since 3d12h":           {timeFlags{since: "3d12h"}, window{from: ago(84 * time.Hour), to: now}},
		"since a week":          {timeFlags{since: "1w"}, window{from: ago(7 * 24 * time.Hour), to: now}},
		"from":                  {timeFlags{from: "14:00"}, window{from: ago(time.Hour), to: now}},
		"to":                    {timeFlags{to: "14:00"}, window{to: ago(time.Hour)}},
		"from and to":           {timeFlags{from: "13:00", to: "14:00"}, window{from: ago(2 * time.Hour), to: ago(time.Hour)}},
		"yesterday's":           {timeFlags{from: "15:10", to: "15:20"}, window{from: ago(23*time.Hour + 50*time.Minute), to: ago(23*time.Hour + 40*time.Minute)}},
		"to is still to come":   {timeFlags{from: "14:50", to: "15:10"}, window{from: ago(10 * time.Minute), to: now.Add(10 * time.Minute)}},
		"from a date to a time": {timeFlags{from: "2026-03-01", to: "15:10"}, window{from: time.Date(2026, 3, 1, 0, 0, 0, 0, zoneCET), to: ago(24*time.Hour - 10*time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.f.window(now)
			if err != nil || !got.from.Equal(tt.want.from) || !got.to.Equal(tt.want.to) || got.latest != tt.want.latest {
				t.Errorf("window = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestBadWindows(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, zoneCET)
	for _, tt := range []struct {
		f        timeFlags
		what, do string
	}{
		{timeFlags{since: "1h", to: "14:00"}, "cannot be combined", "one of them"},
		{timeFlags{since: "soon"}, `--since cannot be "soon"`, "1h30m"},
		{timeFlags{since: "60"}, `--since cannot be "60"`, "1h30m"},
		{timeFlags{since: "0"}, `--since cannot be "0"`, "1h30m"},
		{timeFlags{from: "1540"}, `--from cannot be "1540"`, "15:40"},
		{timeFlags{to: "noon"}, `--to cannot be "noon"`, "15:40"},
		{timeFlags{from: "14:50", to: "14:40"}, "--from must be before --to", "14:50:00 CET and 2026-03-02 14:40:00 CET"},
		{timeFlags{from: "14:50", to: "14:50"}, "--from must be before --to", "14:50"},
		{timeFlags{from: "2026-03-03"}, "in the future", "it is 2026-03-02 15:00:00 CET now"},
	} {
		_, err := tt.f.window(now)
		var p *problem
		if !errors.As(err, &p) || p.Code != exitUsage || !strings.Contains(p.What, tt.what) || !strings.Contains(p.Do, tt.do) {
			t.Errorf("window(%+v) fails with %+v, want %q and %q", tt.f, err, tt.what, tt.do)
		}
	}
}

// The clock and the zone come from the environment.
func TestZone(t *testing.T) {
	at := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	e := &Env{Now: func() time.Time { return at }, Zone: zoneCET}
	if got := clockText(e.now(false)); got != "2026-03-02 16:00:00 CET" {
		t.Errorf("now is %s", got)
	}
	if got := clockText(e.now(true)); got != "2026-03-02 15:00:00 UTC" {
		t.Errorf("with --utc now is %s", got)
	}
	f := timeFlags{from: "15:30", utc: true}
	w, err := f.window(e.now(f.utc))
	if want := at.Add(-23*time.Hour - 30*time.Minute); err != nil || !w.from.Equal(want) {
		t.Errorf("15:30 with --utc is %v (%v), want %v", w.from, err, want)
	}
}

func TestSessionsOfAWindow(t *testing.T) {
	at := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return at.Add(time.Duration(n) * time.Minute) }
	session := func(id string, from, to int, state string) query.Session {
		s := query.Session{Session: segment.Session{ID: id, Started: minute(from)}, Updated: minute(to), State: state}
		if state != "running" {
			s.Ended = minute(to)
		}
		return s
	}
	all := []query.Session{session("c", 30, 40, "running"), session("b", 20, 30, "ended"), session("a", 0, 10, "interrupted")}
	for name, tt := range map[string]struct {
		w    window
		want string
	}{
		"latest":                         {window{latest: true}, "c"},
		"all":                            {window{from: minute(-1), to: minute(50)}, "a b c"},
		"up to":                          {window{to: minute(25)}, "a b"},
		"between":                        {window{from: minute(11), to: minute(20)}, ""},
		"its last moment":                {window{from: minute(10), to: minute(11)}, "a"},
		"what runs has no end":           {window{from: minute(41), to: minute(42)}, "c"},
		"one that starts then is not in": {window{from: minute(11), to: minute(30)}, "b"},
		"since, after the clock is set":  {window{from: minute(95), to: minute(100), since: 5 * time.Minute}, "c"},
		"since, after it is set back":    {window{from: minute(-5), to: minute(0), since: 15 * time.Minute}, "b c"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.w.sessions(all, "x.db", time.UTC)
			var ids []string
			for i := range got {
				ids = append(ids, got[i].ID)
			}
			if strings.Join(ids, " ") != tt.want {
				t.Errorf("sessions %q, want %q", ids, tt.want)
			}
			var p *problem
			if none := errors.As(err, &p); none != (tt.want == "") {
				t.Errorf("error %v", err)
			} else if none && (p.What != "no recording covers that time in x.db" || p.Do != "the latest recording covers 2026-03-02 15:30:00 to 2026-03-02 15:40:00 UTC") {
				t.Errorf("error %q, %q", p.What, p.Do)
			}
		})
	}
	if _, err := (&window{latest: true}).sessions(nil, "x.db", time.UTC); !errors.Is(err, query.ErrNoSession) {
		t.Errorf("of no session: %v", err)
	}
}

// A range up to the current time ends with the recording that is being made, whatever the wall clock shows.
func TestSinceAfterAClockStep(t *testing.T) {
	at := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	all := []query.Session{{Session: segment.Session{ID: "a", Started: at}, Updated: at.Add(10 * time.Minute), State: "running"}}
	for _, wall := range []time.Duration{-time.Hour, 10 * time.Minute, time.Hour} {
		w, err := (&timeFlags{since: "5m"}).window(at.Add(wall))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // once is enough
			if _, err := w.sessions(all, "x.db", time.UTC); err != nil {
				t.Fatal(err)
			}
			if from, to := w.from.Sub(at).Round(time.Second), w.to.Sub(at).Round(time.Second); from != 5*time.Minute || to != 10*time.Minute {
				t.Errorf("wall clock at %v: from %v to %v", wall, from, to)
			}
		}
	}
}
