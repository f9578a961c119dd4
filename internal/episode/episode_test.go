package episode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

var t0 = time.Unix(1_700_000_000, 0).UTC()

func second(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// chain is one that lost ms by the second to, in a window that ends there.
func chain(id string, to float64, ms int, grade tick.Severity, by string) tick.Chain {
	return tick.Chain{ID: id, PID: 7, Severity: grade, From: second(max(0, to-60)), To: second(to), Window: time.Minute, Lost: time.Duration(ms) * time.Millisecond,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf(by)}}}}
}

// film plays ticks, a second apart, and lists their events as text.
type film struct {
	tracker  Tracker
	seq      uint64
	reported []string
}

func (f *film) tick(change func(*tick.Tick), chains ...tick.Chain) {
	f.seq++
	t := &tick.Tick{Seq: f.seq, Time: second(float64(f.seq)), Started: t0, Window: time.Second, Chains: chains}
	if change != nil {
		change(t)
	}
	reported := f.tracker.Tick(Now{t.Time, t.Seq, t.Window, t.Final, t.Processes, t.Chains, t.Hidden})
	for i := range reported {
		e := &reported[i]
		s := fmt.Sprintf("%d %s %s %s %s %dms %g-%g", f.seq, strings.TrimPrefix(e.Kind.String(), "chain_"), e.ID, e.Why, e.Severity, e.Lost.Milliseconds(),
			e.From.Sub(t0).Seconds(), e.To.Sub(t0).Seconds())
		if e.Hidden {
			s += " hidden"
		}
		f.reported = append(f.reported, s)
	}
}

func (f *film) want(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(f.reported, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func final(t *tick.Tick) { t.Final = true }

// A chain is reported when it begins, when its loss has grown much, and when it is over.
func TestLife(t *testing.T) {
	var f film
	f.tick(nil)
	for s := 2; s <= 40; s++ { // 100 ms a second
		f.tick(nil, chain("c", float64(s), 100*(s-1), tick.High, "hog"))
	}
	for s := 41; s <= 400; s++ { // no further loss; the ticks have it for five minutes
		if s-40 > 300 {
			f.tick(nil)
			continue
		}
		f.tick(nil, chain("c", 40, 3900, tick.High, "hog"))
	}
	f.tick(final)
	f.want(t,
		"2 begin c.2  HIGH 100ms 0-2",
		"12 update c.2 lost HIGH 1100ms 0-12",
		"23 update c.2 lost HIGH 2200ms 0-23",
		"61 end c.2 over HIGH 3900ms 0-40")
	if n := len(f.tracker.lives); n != 0 {
		t.Errorf("%d lives are kept", n)
	}
}

// Steps longer than the quiet time are one episode.
func TestLongSteps(t *testing.T) {
	var f film
	for s := 1; s <= 151; s++ {
		n := min(s/25, 4)
		if n == 0 {
			f.tick(nil)
			continue
		}
		c := chain("c", float64(25*n), 3000*min(n, 3), tick.High, "hog")
		c.StepP50 = 25 * time.Second
		f.tick(nil, c)
	}
	f.want(t,
		"25 begin c.25  HIGH 3000ms 0-25",
		"50 update c.25 lost HIGH 6000ms 0-50",
		"100 update c.25 lost HIGH 12000ms 0-100",
		"151 end c.25 over HIGH 12000ms 0-100")
}

// An episode ends also if its chain became over while the agent stood still.
func TestOverWithoutATick(t *testing.T) {
	var f film
	f.tick(nil, chain("c", 1, 500, tick.High, "hog"))
	f.seq += 360
	f.tick(nil)
	f.want(t,
		"1 begin c.1  HIGH 500ms 0-1",
		"362 end c.1 over HIGH 500ms 0-1")
	if n := len(f.tracker.lives); n != 0 {
		t.Errorf("%d lives are kept", n)
	}
}

// An episode's loss is its whole loss, though a chain's figures cover a minute.
func TestTotal(t *testing.T) {
	var f film
	for s := 1; s <= 300; s++ {
		c := chain("c", float64(s), 10*min(s, 60), tick.Low, "hog")
		c.From = second(float64(max(0, s-60)))
		f.tick(nil, c)
	}
	f.tick(final, chain("c", 300, 600, tick.Low, "hog"))
	last := f.reported[len(f.reported)-1]
	if want := "301 end c.1 trace-ended LOW 3000ms 0-300"; last != want {
		t.Errorf("%s; want %s", last, want)
	}
	if n := len(f.reported); n != 7 { // begin, five doublings from 100 ms on, end
		t.Errorf("%d are reported: %q", n, f.reported)
	}
	if n := len(f.tracker.lives["c"].marks); n > 62 {
		t.Errorf("%d marks are kept", n)
	}
}

// A chain that costs something again has another episode with only the new loss.
func TestAgain(t *testing.T) {
	var f film
	f.tick(nil, chain("c", 1, 500, tick.High, "hog"))
	for s := 2; s <= 30; s++ {
		f.tick(nil, chain("c", 1, 500, tick.High, "hog"))
	}
	f.tick(nil, chain("c", 31, 700, tick.High, "hog"))
	f.tick(final, chain("c", 31, 700, tick.High, "hog"))
	f.want(t,
		"1 begin c.1  HIGH 500ms 0-1",
		"22 end c.1 over HIGH 500ms 0-1",
		"31 begin c.31  HIGH 200ms 30-31",
		"32 end c.31 trace-ended HIGH 200ms 30-31")
}

// A premature chain is revised, unless it comes back at once.
func TestRevised(t *testing.T) {
	var f film
	f.tick(nil, chain("c", 1, 500, tick.Low, "hog"))
	f.tick(nil)
	f.tick(nil, chain("c", 3, 700, tick.Low, "hog"))
	for range 5 {
		f.tick(nil)
	}
	f.tick(final)
	f.want(t, "1 begin c.1  LOW 500ms 0-1", "7 revised c.1  LOW 700ms 0-3")
}

// A higher severity is reported at once, and a new culprit after a while; a lower severity or
// another order of reported culprits is not.
func TestUpdate(t *testing.T) {
	var f film
	at := func(s float64, grade tick.Severity, by string) tick.Chain { return chain("c", s, 500, grade, by) }
	f.tick(nil, at(1, tick.Low, "a"))
	f.tick(nil, at(2, tick.High, "a"))
	f.tick(nil, at(3, tick.Medium, "b"))
	f.tick(nil, at(4, tick.High, "a"))
	for s := 5; s < 40; s++ {
		f.tick(nil, at(float64(s), tick.High, string("ab"[s%2])))
	}
	f.want(t,
		"1 begin c.1  LOW 500ms 0-1",
		"2 update c.1 severity HIGH 500ms 0-2",
		"13 update c.1 culprit HIGH 500ms 0-13")
}

// The victim's exit ends its episodes.
func TestExit(t *testing.T) {
	var f film
	dead := func(t *tick.Tick) { t.Processes = []tick.Process{{PID: 7, Ended: t.Time}} }
	f.tick(nil, chain("c", 1, 500, tick.Low, "a"))
	f.tick(dead, chain("c", 2, 600, tick.Low, "a")) // its last steps
	f.tick(dead, chain("c", 2, 600, tick.Low, "a"))
	f.tick(dead, chain("c", 2, 600, tick.Low, "a"))
	f.want(t, "1 begin c.1  LOW 500ms 0-1", "3 end c.1 process-ended LOW 600ms 0-2")
}

// A hidden chain is reported as hidden: a visible chain that becomes hidden ends, and a hidden one
// that becomes visible begins.
func TestHidden(t *testing.T) {
	var f film
	hide := func(why tick.HiddenReason) func(*tick.Tick) {
		return func(t *tick.Tick) {
			t.Hidden, t.Chains = []tick.Hidden{{Chain: t.Chains[0], Why: why}}, nil
		}
	}
	f.tick(hide(tick.HiddenSeverity), chain("c", 1, 500, tick.Low, "a"))
	f.tick(nil, chain("c", 2, 600, tick.High, "a"))
	f.tick(hide(tick.HiddenSeverity), chain("c", 3, 700, tick.Low, "a"))
	f.tick(hide(tick.HiddenSilenced), chain("c", 4, 800, tick.Low, "a"))
	f.tick(hide(tick.HiddenSilenced), chain("c", 5, 900, tick.Low, "a"))
	f.tick(func(t *tick.Tick) { hide(tick.HiddenSilenced)(t); t.Final = true }, chain("c", 5, 900, tick.Low, "a"))
	f.want(t,
		"1 begin c.1  LOW 500ms 0-1 hidden",
		"2 begin c.1  HIGH 600ms 0-2",
		"4 end c.1 silenced HIGH 800ms 0-4",
		"5 begin c.5  LOW 100ms 4-5 hidden",
		"6 end c.5 trace-ended LOW 100ms 4-5 hidden")
}

// Several events have a fixed order, and an unreported episode has no end event.
func TestOrder(t *testing.T) {
	var one, other film
	for range 3 {
		one.tick(nil, chain("b", 1, 500, tick.High, "x"), chain("a", 1, 400, tick.Low, "y"))
		other.tick(nil, chain("b", 1, 500, tick.High, "x"), chain("a", 1, 400, tick.Low, "y"))
	}
	one.tick(final)
	other.tick(final)
	if strings.Join(one.reported, "\n") != strings.Join(other.reported, "\n") || len(one.reported) != 4 || !strings.HasPrefix(one.reported[0], "1 begin b.1") {
		t.Errorf("%q and %q", one.reported, other.reported)
	}
}
