package ledger

import (
	"fmt"
	"strings"
)

// reading is what the program's clocks showed at one moment, ns.
type reading struct {
	wall, cpu, delay, throttled int64
	aside                       int64 // spent between reading wall and reading cpu
	blocks, preemptions         int64 // switches away from the thread, so far
	left, came, woken           int64 // what the witness was shown of these
	hog                         [4]int64
}

func (r *reading) minus(o *reading) (d reading) {
	d = reading{wall: r.wall - o.wall, cpu: r.cpu - o.cpu, delay: r.delay - o.delay, throttled: r.throttled - o.throttled,
		blocks: r.blocks - o.blocks, preemptions: r.preemptions - o.preemptions, left: r.left - o.left, came: r.came - o.came, woken: r.woken - o.woken}
	for i := range r.hog {
		d.hog[i] = r.hog[i] - o.hog[i]
	}
	return d
}

// truth is what the program knows of one call, or of the gap before it, by
// differences of its clocks. Blocked is what it planned and timed itself, or -1
// where nobody could: then it is what the other clocks leave.
type truth struct {
	reading
	blocked int64
	margin  int64 // between the readings and the insides of the calls next to them
	//lint:ignore U1000 measurements set it
	stolen int64 // the hypervisor's, while the thread was on its CPU: the CPU clock leaves it out
}

// line is one of the program's: the readings before and after a call, the blocked
// times of the call and of the gap before it, and times just inside the call.
type line struct {
	inner         int
	before, after reading
	blocked, gap  int64
	begun, ended  int64
}

func parse(text string) (l line, err error) {
	args := []any{&l.inner}
	for _, r := range []*reading{&l.before, &l.after} {
		args = append(args, &r.wall, &r.cpu, &r.aside, &r.delay, &r.throttled, &r.blocks, &r.preemptions, &r.left, &r.came, &r.woken)
		for i := range r.hog {
			args = append(args, &r.hog[i])
		}
	}
	_, err = fmt.Sscan(strings.TrimPrefix(text, "call "), append(args, &l.blocked, &l.gap, &l.begun, &l.ended)...)
	return l, err
}

// read takes in what the program printed.
func (o *outcome) read(text string) error {
	var last line
	for text := range strings.Lines(text) {
		var err error
		switch word, rest, _ := strings.Cut(strings.TrimSpace(text), " "); word {
		case "thread":
			var tid uint32
			_, err = fmt.Sscan(rest, &tid)
			o.threads = append(o.threads, tid)
		case "call":
			var l line
			if l, err = parse(text); err != nil {
				break
			}
			call := truth{reading: l.after.minus(&l.before), blocked: l.blocked, margin: l.begun - l.before.wall + l.after.wall - l.ended}
			call.aside = l.before.aside + l.after.aside
			call.cpu -= call.aside + call.margin
			call.wall -= call.margin
			if l.inner == 1 {
				o.inner = append(o.inner, call)
				break
			}
			gap := truth{reading: l.before.minus(&last.after), blocked: l.gap, margin: l.begun - l.before.wall + last.after.wall - last.ended}
			gap.aside = last.after.aside + l.before.aside
			gap.cpu += gap.aside + gap.margin
			gap.wall += gap.margin
			o.truths, o.gaps = append(o.truths, call), append(o.gaps, gap)
			last = l
		}
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	if len(o.gaps) > 0 {
		o.gaps[0] = truth{} // nothing is before the first call
	}
	return nil
}

// parts are where the time of a call or a gap went by one account.
type parts struct{ wall, cpu, runnable, throttled, blocked int64 }

// each of the parts, in the order of partNames.
func (p *parts) list() [5]int64 {
	return [5]int64{p.wall, p.cpu, p.runnable, p.throttled, p.blocked}
}

// off is how far the worst of the parts are apart.
func (p *parts) off(q parts) (ns int64) {
	a, b := p.list(), q.list()
	for i := range a {
		ns = max(ns, abs(a[i], b[i]))
	}
	return ns
}

func abs(a, b int64) int64 { return max(a-b, b-a) }
