package ledger

import (
	"fmt"
	"os"
	"strings"

	"ingero/pkg/events"
)

// reading has the program's clocks (ns) and counters at one moment.
type reading struct {
	wall, cpu, delay, throttled int64
	aside                       int64 // time between reading the wall clock and reading the CPU clock
	blocks, preemptions         int64 // switches away from the thread
	left, came, woken           int64 // the witness's counts: switches from, switches to, wake-ups
	hog                         [4]int64
}

func (r *reading) minus(o *reading) (d reading) {
	d = reading{wall: r.wall - o.wall, cpu: r.cpu - o.cpu, delay: r.delay - o.delay, throttled: r.throttled - o.throttled,
		blocks: r.blocks - o.blocks, preemptions: r.preemptions - o.preemptions,
		left: r.left - o.left, came: r.came - o.came, woken: r.woken - o.woken}
	for i := range r.hog {
		d.hog[i] = r.hog[i] - o.hog[i]
	}
	return d
}

// truth is the program's knowledge of one call, or of the gap before it: differences of its
// readings. The readings lie outside the call: the time between them and the call counts as on-CPU
// time of the gap, in wall and in cpu.
type truth struct {
	reading
	inner   bool  // a call inside another
	blocked int64 // as planned and timed by the program; -1: unknown
	margin  int64 // wall clock time between the readings and the inside of the call
	//lint:ignore U1000 only measurements set it
	stolen int64 // stolen while the thread was on its CPU: not in cpu
}

// between returns the differences of two readings.
func between(from, to *reading, blocked, margin int64) truth {
	t := truth{reading: to.minus(from), blocked: blocked, margin: margin}
	t.aside = from.aside + to.aside
	return t
}

// outside returns the wall clock time between the readings and the inside of the call. The
// differences are off by at most this.
func (t *truth) outside() int64 { return t.aside + t.margin }

// switches returns how often the thread left the CPU.
func (t *truth) switches() int64 { return t.blocks + t.preemptions }

// line is the program's output for one call.
type line struct {
	inner         int
	before, after reading
	blocked, gap  int64 // blocked time of the call, and of the gap before it
	begun, ended  int64 // wall clock just inside the call
}

func (l *line) scan(text string) error {
	args := []any{&l.inner}
	for _, r := range []*reading{&l.before, &l.after} {
		args = append(args, &r.wall, &r.cpu, &r.aside, &r.delay, &r.throttled, &r.blocks, &r.preemptions, &r.left, &r.came, &r.woken)
		for i := range r.hog {
			args = append(args, &r.hog[i])
		}
	}
	_, err := fmt.Sscan(text, append(args, &l.blocked, &l.gap, &l.begun, &l.ended)...)
	return err
}

// read parses the program's output. Calls come in the order in which they began.
func (r *run) read(text string) error {
	var last *line
	for text := range strings.Lines(text) {
		var err error
		switch word, rest, _ := strings.Cut(strings.TrimSpace(text), " "); word {
		case "thread":
			own := events.Thread{PID: r.pid, Parent: uint32(os.Getpid()), Name: events.NameOf("truth")}
			_, err = fmt.Sscan(rest, &own.TID)
			r.culprits = append(r.culprits, own)
		case "call":
			l := &line{}
			if err = l.scan(rest); err != nil {
				break
			}
			call := between(&l.before, &l.after, l.blocked, l.begun-l.before.wall+l.after.wall-l.ended)
			call.inner = l.inner == 1
			call.cpu -= call.outside()
			call.wall -= call.margin
			var gap truth
			if last != nil && !call.inner {
				gap = between(&last.after, &l.before, l.gap, l.begun-l.before.wall+last.after.wall-last.ended)
				gap.cpu += gap.outside()
				gap.wall += gap.margin
			}
			if !call.inner {
				last = l
			}
			r.truths, r.gaps = append(r.truths, call), append(r.gaps, gap)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	return nil
}
