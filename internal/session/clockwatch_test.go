package session

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// Steps of the wall clock are reported, each once, with the machine's sleep told from a set clock.
// Every tick has their sum.
func TestClockSteps(t *testing.T) {
	r := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
	var ahead, slept time.Duration
	c := &clockWatch{read: func() (time.Duration, time.Duration) { return ahead, slept }, report: r}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for i, tt := range []struct {
		set, sleep time.Duration
		want       string // "": no report
	}{
		{0, 0, ""},
		{time.Hour, 0, "the clock was set forward by 1h0m0s: later times of this recording are 1h0m0s behind the wall clock; to correct them, restart the trace"},
		{0, 0, ""},
		{-2 * time.Hour, 0, "the clock was set back by 2h0m0s: later times of this recording are 1h0m0s ahead of the wall clock; to correct them, restart the trace"},
		{0, time.Hour, "the machine slept for 1h0m0s: later times of this recording agree with the wall clock again"},
		{time.Minute, time.Hour, "the machine slept for 1h0m0s, and the clock was set forward by 1m0s: later times of this recording are 1h1m0s behind the wall clock; to correct them, restart the trace"},
		{600 * time.Millisecond, 0, ""},
		{600 * time.Millisecond, 0, "the clock was set forward by 1s, in small steps since 2026-01-02 15:04:11 UTC: later times of this recording are 1h1m1s behind the wall clock; to correct them, restart the trace"},
		{20 * time.Millisecond, 0, ""},
		{0, 0, ""},
		{time.Hour, 0, "the clock was set forward by 1h0m0s: later times of this recording are 2h1m1s behind the wall clock; to correct them, restart the trace"},
		{20_000 * 24 * time.Hour, 0, "the clock was set forward by 20000 days: later times of this recording are 20000 days behind the wall clock; to correct them, restart the trace"},
	} {
		at = at.Add(time.Second)
		ahead, slept = ahead+tt.set+tt.sleep, slept+tt.sleep
		before := len(r.all())
		got := c.tick(at, false)
		reports := r.all()[before:]
		switch {
		case (ahead - got).Abs() >= leastStep:
			t.Errorf("%d: the wall clock is %v ahead, want %v", i, got, ahead)
		case tt.want == "" && len(reports) > 0, tt.want != "" && len(reports) != 1:
			t.Errorf("%d: reports %+v, want %q", i, reports, tt.want)
		case tt.want != "" && (reports[0].Kind != "clock-step" || reports[0].Why != "at "+at.Format("2006-01-02 15:04:05 MST")+" "+tt.want):
			t.Errorf("%d: %q, want %q", i, reports[0].Why, tt.want)
		}
	}
}

// After many steps, the last report has the sums of all others. It changes at each doubling of their number
// and at the end, since a recording keeps each text.
func TestManyClockSteps(t *testing.T) {
	r := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
	var ahead time.Duration
	c := &clockWatch{read: func() (time.Duration, time.Duration) { return ahead, 0 }, report: r}
	at := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	texts := map[tick.Report]bool{}
	const further = 301
	for n := range mostSteps + further {
		at = at.Add(time.Second)
		if ahead += 3 * time.Second; n%2 == 1 {
			ahead -= 5 * time.Second
		}
		c.tick(at, false)
		for _, x := range r.all() {
			texts[x] = true
		}
	}
	ahead += leastStep / 2
	c.tick(at.Add(time.Second), true)
	all := r.all()
	const want = "from 2026-01-02 15:01:41 UTC to 2026-01-02 15:06:41 UTC the clock was set, or the machine slept, 301 more times, by 7m33s forward and 5m0s back; " +
		"this line is updated each time the number doubles, and at the end of the recording"
	if last := all[len(all)-1]; len(all) != mostSteps+1 || last.Kind != "clock-step" || last.Why != want {
		t.Errorf("%d reports, the last: %+v", len(all), last)
	}
	if most := mostSteps + 9; len(texts) != most { // 1, 2, 4, ... 256 further ones
		t.Errorf("%d texts, want %d", len(texts), most)
	}
}

// A tape keeps how far the wall clock was ahead; older tapes do not have it.
func TestClockStepOfATape(t *testing.T) {
	text, err := json.Marshal(tables{Ahead: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		frame []byte
		want  time.Duration
	}{{text, time.Hour}, {[]byte("{}"), 0}} {
		p := &Player{frames: map[tape.Kind][][]byte{tape.Tables: {tt.frame}}}
		l := newLive(&LiveOptions{Log: slog.New(slog.DiscardHandler), Notify: func(Notice) {}}, nil, p, p, decode.Clock{})
		x := tick.Tick{}
		if l.fillTick(&x); x.Ahead != tt.want || p.err != nil {
			t.Errorf("%s: ahead by %v (%v), want %v", tt.frame, x.Ahead, p.err, tt.want)
		}
	}
}

// Silences end by the wall clock.
func TestHideByTheWallClock(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var got time.Time
	r := &runner{Config: Config{Hide: func(now time.Time, _ bool, chains []tick.Chain) ([]tick.Chain, []tick.Hidden) {
		got = now
		return chains, nil
	}}}
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == "hide" })
	if err := stages[i].tick(r, &tick.Tick{Time: at, Ahead: time.Hour}); err != nil || !got.Equal(at.Add(time.Hour)) {
		t.Errorf("hidden as of %v (%v), want %v", got, err, at.Add(time.Hour))
	}
}
