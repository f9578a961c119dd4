package query

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// recordOccurrences records three chains, each at the start and again after ten minutes: "lost" with
// losses and two episodes, "leak" without losses and with two episodes, and "open" with an episode
// that lasts all the time but is reported only at its start. "bare" has losses, no episodes.
func recordOccurrences(t *testing.T) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	episode := func(kind tick.EpisodeKind, n int, c *tick.Chain) tick.Episode {
		e := tick.Episode{Kind: kind, ID: fmt.Sprintf("%s.%d", c.ID, n), Severity: c.Severity, From: c.From, To: c.To, Lost: c.Lost, Chain: *c}
		if kind == tick.EpisodeEnd {
			e.Why = tick.ReasonOver
		}
		return e
	}
	for n, severity := range []tick.Severity{tick.High, tick.Low} {
		from := x.now
		x.now = x.now.Add(20 * time.Second)
		tk := x.tick(false)
		lost := time.Duration(2-n) * time.Second
		for _, id := range []string{"lost", "leak", "open", "bare"} {
			c := tick.Chain{ID: id, Rule: "cpu-taken", Severity: severity, PID: 4821, From: from.Add(5 * time.Second), To: x.now, Window: time.Minute, Lost: lost, LostMin: lost / 2, LostMax: 2 * lost,
				Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf(fmt.Sprint("hog", n))}, Lost: lost / 2}},
				Timeline: []tick.Moment{{Time: x.now, Source: "HOST", Text: "it ran"}}}
			if id == "leak" || id == "open" {
				c.Lost, c.LostMin, c.LostMax, c.Culprits[0].Lost = 0, 0, 0, 0
			}
			tk.Chains = append(tk.Chains, c)
			switch {
			case id == "lost" || id == "leak":
				tk.Episodes = append(tk.Episodes, episode(tick.EpisodeBegin, n, &c), episode(tick.EpisodeEnd, n, &c))
			case id == "open" && n == 0:
				tk.Episodes = append(tk.Episodes, episode(tick.EpisodeBegin, n, &c))
			}
		}
		if err := x.db.Tick(tk); err != nil {
			t.Fatal(err)
		}
		x.idle(10 * time.Minute)
	}
	x.close()
	return openReader(t, path)
}

// Each window has the chains that overlap it, also if they are in a later state by now.
func TestChainsOfWindows(t *testing.T) {
	r := recordOccurrences(t)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for name, tt := range map[string]struct {
		from, to int
		want     string
	}{
		"the first time":  {0, 60, "lost HIGH hog0 5-20 2s, leak HIGH hog0 5-20 0s, open HIGH hog0 5-640 0s, bare LOW hog1 0-60 2s"},
		"a part of it":    {10, 15, "lost HIGH hog0 5-20 2s, leak HIGH hog0 5-20 0s, open HIGH hog0 5-640 0s, bare LOW hog1 10-15 167ms"},
		"before it":       {0, 5, "bare LOW hog1 0-5 167ms"}, // only its minute is known
		"between":         {60, 600, "open HIGH hog0 5-640 0s"},
		"the second time": {600, 700, "bare LOW hog1 625-640 1s, lost LOW hog1 625-640 1s, leak LOW hog1 625-640 0s, open LOW hog1 625-640 0s"},
		"its last second": {639, 640, "bare LOW hog1 625-640 1s, lost LOW hog1 625-640 1s, leak LOW hog1 625-640 0s, open LOW hog1 625-640 0s"},
		"after it":        {700, 800, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := r.Chains(context.Background(), Filter{From: at(tt.from), To: at(tt.to)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range all {
				c := &all[i]
				got = append(got, fmt.Sprintf("%s %v %s %.0f-%.0f %v", c.ID, c.Severity, c.Culprit(), c.From.Sub(began).Seconds(), c.To.Sub(began).Seconds(), c.Lost.Round(time.Millisecond)))
				if d := c.Culprits[0].Lost - c.Lost/2; d.Abs() > time.Microsecond || c.LostMin > c.Lost || c.LostMax < c.Lost {
					t.Errorf("%s lost %v in [%v, %v], its culprit took %v", c.ID, c.Lost, c.LostMin, c.LostMax, c.Culprits[0].Lost)
				}
				if slices.ContainsFunc(c.Timeline, func(m tick.Moment) bool { return m.Time.Before(c.From) || m.Time.After(c.To) }) {
					t.Errorf("%s from %v to %v has the timeline %v", c.ID, c.From, c.To, c.Timeline)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), tt.want)
			}
		})
	}
}

// No statement about a window reads all chains, episodes or losses of a recording.
func TestWindowsReadByKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	record(t, path, segment.Session{ID: "s"}).close()
	whole := regexp.MustCompile(`SCAN (chains|episodes|losses|e|c|l)\b|\(session=\?\)`)
	for _, q := range []string{windowChains, windowEpisodes, windowLosses, chainLives, chainLosses} {
		plan := testkit.Rows(t, path, "EXPLAIN QUERY PLAN "+regexp.MustCompile(`\?\d*`).ReplaceAllString(q, "1"))
		if whole.MatchString(plan) || !strings.Contains(plan, "SEARCH") {
			t.Errorf("%s\nis run as\n%s", q, plan)
		}
	}
}
