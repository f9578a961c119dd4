package cli

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	storelog "ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// part analyzes a part of the incident's recording, in which a hog ran for the second four of
// twelve seconds.
func part(t *testing.T, from, to time.Duration) *collector {
	t.Helper()
	log := recorded(t, "incident")
	s := log.Session()
	w := &windowed{Replay: segment.NewReplay(log, segment.ReplayOptions{}), base: map[threadID]tick.Thread{}}
	if from > 0 {
		w.from = s.Started.Add(from).UnixNano()
	}
	if to > 0 {
		w.to = s.Started.Add(to).UnixNano()
	}
	log.Window(w.from, orMax(w.to))
	c := &collector{}
	if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(w), Clock: w.Replay, Sinks: []tick.Sink{c}, Poll: replayPoll}); err != nil {
		t.Fatal(err)
	}
	return c
}

// The analysis of a window covers what happened in the window and nothing else.
func TestAnalyseAPart(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to time.Duration
		length   time.Duration
		hog      bool
	}{
		"all":    {0, 0, 12 * time.Second, true},
		"before": {0, 3 * time.Second, 3 * time.Second, false},
		"during": {3 * time.Second, 9 * time.Second, 6 * time.Second, true},
		"after":  {9 * time.Second, 0, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := part(t, tt.from, tt.to)
			in := c.input("", "")
			if len(in.Breakdowns) != 1 {
				t.Fatalf("%d accounts, want that of the loop", len(in.Breakdowns))
			}
			b := &in.Breakdowns[0]
			if got := time.Duration(b.Elapsed).Seconds(); math.Abs(got-tt.length.Seconds()) > 1.2 {
				t.Errorf("the account is of %.1f s, want %v", got, tt.length)
			}
			if sum := b.GPUWait + b.CallCPU + b.GapCPU + b.Runnable + b.Throttled + b.Blocked; sum != b.Elapsed {
				t.Errorf("its parts add up to %d of %d ns", sum, b.Elapsed)
			}
			if most := tt.length.Seconds() * 450; float64(b.Steps) > most || b.Steps < int(most/3) {
				t.Errorf("%d steps in %v", b.Steps, tt.length)
			}
			hogged := false
			for _, x := range in.Chains {
				hogged = hogged || x.Culprits[0].Thread.Name.String() == hogName
			}
			if hogged != tt.hog || !tt.hog && len(in.Chains) > 0 {
				t.Errorf("chains %+v, want the hog: %v", in.Chains, tt.hog)
			}
			if text := explain.Report(in, explain.Options{}); text == "" {
				t.Error("nothing is said")
			}
		})
	}
}

// fourMinutes records 240 seconds from began, in several segments.
func fourMinutes(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	x, err := startBounded(path, "gpu-7-one", "gpu-7", began, 64<<20)
	for range 240 {
		if err == nil {
			err = x.second()
		}
	}
	if err = errors.Join(err, x.end()); err != nil {
		t.Fatal(err)
	}
	return path
}

// damageFirstSegment makes a part of the session's first segment unreadable; there must be more than three.
func damageFirstSegment(t *testing.T, path, session string) {
	t.Helper()
	segs, err := segment.OfSession(storelog.Dir(store.LogDir(path)), session)
	if err != nil || len(segs) < 4 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	first := filepath.Join(store.LogDir(path), segs[0].Name)
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[len(text)/2 : len(text)/2+64])
	if err := os.WriteFile(first, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A report has the damage that its analysis met, and the damage that only its counts show: after the last
// segment is lost, the analysis just ends earlier.
func TestReportHasAllDamage(t *testing.T) {
	path := fourMinutes(t)
	damageFirstSegment(t, path, "gpu-7-one")
	segs, err := segment.OfSession(storelog.Dir(store.LogDir(path)), "gpu-7-one")
	if err == nil {
		err = os.Remove(filepath.Join(store.LogDir(path), segs[len(segs)-1].Name))
	}
	if err != nil {
		t.Fatal(err)
	}
	code, text, stderr := command(t, later, nil, "explain", "--db", path, "--from", "2026-11-20T14:41:01Z", "--to", "2026-11-20T14:46:00Z")
	text = strings.Join(strings.Fields(text), " ")
	met, lost := "cannot be read, in 1 place: "+segs[0].Name, "are lost"
	if code != 0 || strings.Count(text, segs[0].Name) != 1 || !strings.Contains(text, met) || !strings.Contains(text, "the last calls of session gpu-7-one, ") || !strings.Contains(text, lost) {
		t.Errorf("%d, %s: %s", code, stderr, text)
	}
}

// An analysis of a window does not read what was recorded long before it, and has the same result.
func TestAnalysisSkipsWhatIsLongBefore(t *testing.T) {
	path := fourMinutes(t)
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := r.Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	from, to := began.Add(220*time.Second), began.Add(235*time.Second)
	log, err := r.OpenLog(&s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	w := &windowed{Replay: segment.NewReplay(log, segment.ReplayOptions{}), base: map[threadID]tick.Thread{}, from: from.UnixNano(), to: to.UnixNano()}
	log.Window(w.from, w.to)
	all := &collector{}
	if err := session.Run(t.Context(), session.Config{Source: session.FromRecording(w), Clock: w.Replay, Sinks: []tick.Sink{all}, Poll: replayPoll}); err != nil {
		t.Fatal(err)
	}
	damageFirstSegment(t, path, s.ID)
	c, err := analyse(t.Context(), r, &s, from, to, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reported := func(c *collector) string {
		in := &explain.Input{}
		c.setTotalCosts(from, to)
		c.ledger(in, nil)
		b, err := explain.ReportJSON(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	got, want := reported(c), reported(all)
	if diff := cmp.Diff(want, got); diff != "" || c.accounts[4821].Elapsed == 0 || c.last.Time.Sub(to) > time.Second {
		t.Errorf("up to %v, account of %d ns; -whole +skipped:\n%s", c.last.Time, c.accounts[4821].Elapsed, diff)
	}
}

// Repeated analyses of a recording have the same result.
func TestAnalysisIsTheSameEachTime(t *testing.T) {
	var want string
	for range 2 {
		c := part(t, time.Second, 11*time.Second)
		b, err := explain.ReportJSON(c.input("", ""))
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && want != string(b) {
			t.Errorf("got %s\nwant %s", b, want)
		}
		want = string(b)
	}
}

// The collector keeps the last state of chains that are over, except revoked ones, and the
// accounts of ended processes.
func TestCollectorKeeps(t *testing.T) {
	c := &collector{}
	at := time.Unix(1000, 0)
	show := func(x *tick.Tick) {
		t.Helper()
		at = at.Add(time.Second)
		x.Time = at
		if err := c.Tick(x); err != nil {
			t.Fatal(err)
		}
	}
	host := func(cpu float64) tick.Host { return tick.Host{CPU: cpu, CPUs: 4} }
	show(&tick.Tick{Chains: []tick.Chain{{ID: "a", PID: 1, Severity: tick.Low, Lost: 1}}, Breakdowns: []tick.Breakdown{{PID: 1, Elapsed: 5}}, Host: host(0.2)})
	show(&tick.Tick{Chains: []tick.Chain{{ID: "a", PID: 1, Severity: tick.Low, Lost: 9}, {ID: "b", PID: 2, Severity: tick.High}}, Breakdowns: []tick.Breakdown{{PID: 1, Elapsed: 7}, {PID: 2, Elapsed: 1}}, Host: host(0.6)})
	show(&tick.Tick{Chains: []tick.Chain{{ID: "a", PID: 1, Severity: tick.Low, Lost: 9}, {ID: "b", PID: 2, Severity: tick.High}, {ID: "c", To: at}}})
	show(&tick.Tick{Breakdowns: []tick.Breakdown{{PID: 2, Elapsed: 2}}, Threads: []tick.Thread{{PID: 1}, {PID: 2}}})
	in := c.input("", "")
	if len(in.Chains) != 2 || in.Chains[0].ID != "b" || in.Chains[1].Lost != 9 {
		t.Errorf("chains: %+v", in.Chains)
	}
	if len(in.Breakdowns) != 2 || in.Breakdowns[0].Elapsed != 7 || in.Breakdowns[1].Elapsed != 2 || len(in.Threads) != 2 {
		t.Errorf("accounts: %+v", in.Breakdowns)
	}
	if in.Host == nil || math.Abs(in.Host.CPU-0.4) > 1e-9 {
		t.Errorf("host: %+v, want 0.4 on average", in.Host)
	}
	one := &explain.Input{}
	c.ledger(one, []uint32{2})
	if len(one.Chains) != 1 || len(one.Breakdowns) != 1 || len(one.Threads) != 1 {
		t.Errorf("of one process: %+v", one)
	}
}
