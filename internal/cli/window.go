package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ingero/internal/config"
	"ingero/internal/query"
)

// timeFlags holds the flags that select a time range. All commands that read recordings have
// the same ones.
type timeFlags struct {
	since, from, to string
	utc             bool
}

func (t *timeFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&t.since, "since", "", "only the time from this long ago until now: 30s, 1h30m, 2d, 1w")
	f.StringVar(&t.from, "from", "", "only the time from this point on")
	f.StringVar(&t.to, "to", "", "only the time before this point")
	bindUTC(f, &t.utc)
}

func bindUTC(f *pflag.FlagSet, utc *bool) {
	f.BoolVar(utc, "utc", false, "read and show times in UTC instead of this machine's time zone")
}

// timesHelp describes time values in help texts.
const timesHelp = `A time is 15:40 or 15:40:30 (the most recent one), "2026-01-02 15:40", RFC 3339 or Unix
seconds. Times are in this machine's time zone or, with --utc, in UTC.`

// given reports whether a time range was given.
func (t *timeFlags) given() bool { return t.since != "" || t.from != "" || t.to != "" }

// window is a time range: [from, to).
type window struct {
	from, to time.Time     // zero: no bound
	latest   bool          // no range given: the command's default part of the latest recording
	since    time.Duration // length up to the current time; 0: the range does not depend on it
}

// anchor moves a range up to the current time to the clock of the recording that is being made. all are
// the database's sessions.
func (w *window) anchor(all []query.Session) {
	if w.since > 0 {
		w.to = query.Now(all, w.to)
		w.from = w.to.Add(-w.since)
	}
}

// anchorFilter anchors a range, and sets it as that of a filter.
func (w *window) anchorFilter(ctx context.Context, r *query.Reader, f *query.Filter) error {
	if w.since == 0 {
		return nil
	}
	all, err := r.Sessions(ctx)
	if err != nil {
		return err
	}
	w.anchor(all)
	f.From, f.To = w.from, w.to
	return nil
}

// window parses the flags. now is in the user's time zone.
func (t *timeFlags) window(now time.Time) (window, error) {
	switch {
	case t.since != "" && (t.from != "" || t.to != ""):
		return window{}, usage("use one of them", "--since cannot be combined with --from or --to")
	case t.since != "":
		d, err := config.ParseDuration(t.since)
		if err != nil || d <= 0 {
			return window{}, usage("for example --since 1h30m; 30s, 2d and 1w are valid too", "--since cannot be %q: it must be a duration", t.since)
		}
		return window{from: now.Add(-d), to: now, since: d}, nil
	case t.from == "" && t.to == "":
		return window{latest: true}, nil
	}
	return t.between(now)
}

// between parses --from and --to.
func (t *timeFlags) between(now time.Time) (window, error) {
	w := window{to: now}
	var err error
	if t.from != "" {
		if w.from, _, err = parseTime(t.from, now); err != nil {
			return w, badTime("--from", t.from)
		}
	}
	if t.to != "" {
		var late time.Time
		if w.to, late, err = parseTime(t.to, now); err != nil {
			return w, badTime("--to", t.to)
		}
		if !late.IsZero() && !w.from.Before(w.to) { // --from 15:40 --to 15:45 at 15:42 means today
			w.to = late
		}
	}
	if w.from.After(now) {
		return w, usage("it is "+clockText(now)+" now", "--from %s is in the future", clockText(w.from))
	}
	if !w.from.Before(w.to) {
		return w, usage(fmt.Sprintf("they are %s and %s", clockText(w.from), clockText(w.to)), "--from must be before --to")
	}
	return w, nil
}

func badTime(flag, text string) error {
	return usage(`as in `+flag+` 15:40; 15:40:30, "2026-01-02 15:40", RFC 3339 and Unix seconds are valid too`,
		"%s cannot be %q: it must be a time", flag, text)
}

// clockText formats a time in its own zone.
func clockText(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") }

// unixSeconds requires at least nine digits: 1540 could mean 15:40.
var unixSeconds = regexp.MustCompile(`^[0-9]{9,11}(\.[0-9]{1,9})?$`)

// parseTime parses a time in now's zone. A time without a date is the most recent one; later
// is then today's, if that is still in the future.
func parseTime(s string, now time.Time) (t, later time.Time, err error) {
	if t, err = parseDate(s, now.Location()); err == nil {
		if t.Unix() < 0 || t.Year() > 2261 { // int64 Unix nanoseconds end in 2262
			return t, later, fmt.Errorf("nothing was recorded in %d", t.Year())
		}
		return t, later, nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		c, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		y, m, d := now.Date()
		on := func(day int) time.Time {
			return time.Date(y, m, day, c.Hour(), c.Minute(), c.Second(), c.Nanosecond(), now.Location())
		}
		if t = on(d); t.After(now) {
			return on(d - 1), t, nil
		}
		return t, later, nil
	}
	return t, later, fmt.Errorf("%q is not a time", s)
}

// parseDate parses a time with a date.
func parseDate(s string, zone *time.Location) (time.Time, error) {
	if unixSeconds.MatchString(s) {
		whole, part, _ := strings.Cut(s, ".")
		sec, _ := strconv.ParseInt(whole, 10, 64)
		ns, _ := strconv.ParseInt((part + "000000000")[:9], 10, 64)
		return time.Unix(sec, ns).In(zone), nil // the digits always parse
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.In(zone), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q has no date", s)
}

// now returns the current time in the user's zone.
func (e *Env) now(utc bool) time.Time {
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	return now().In(e.zone(utc))
}

// zone returns the zone for reading and showing times.
func (e *Env) zone(utc bool) *time.Location {
	switch {
	case utc:
		return time.UTC
	case e.Zone != nil:
		return e.Zone
	}
	return time.Local
}

// sessions returns the recordings in the window, oldest first. all must be sorted newest first.
// If none matches, the error is a [problem].
func (w *window) sessions(all []query.Session, path string, zone *time.Location) ([]query.Session, error) {
	if len(all) == 0 {
		return nil, query.ErrNoSession
	}
	if w.latest {
		return all[:1], nil
	}
	w.anchor(all)
	var out []query.Session
	for i := range slices.Backward(all) {
		s := &all[i]
		over := s.State != "running" && end(s).Before(w.from)
		if !over && s.Started.Before(w.to) {
			out = append(out, *s)
		}
	}
	if len(out) == 0 {
		s := &all[0]
		return nil, &problem{What: "no recording covers that time in " + path,
			Do: fmt.Sprintf("the latest recording covers %s to %s", s.Started.In(zone).Format(time.DateTime), clockText(end(s).In(zone)))}
	}
	return out, nil
}

// end returns the time up to which a recording goes.
func end(s *query.Session) time.Time {
	if s.Ended.After(s.Updated) {
		return s.Ended
	}
	return s.Updated
}

// stepsHelp describes steps in help texts.
const stepsHelp = `A step is what a program repeats. ingero finds steps from the order of the calls. If the
program loads libnvToolsExt (NVTX 1 and 2), its own ranges define the steps: those of the
repeating name that covers most of the time, shown as NVTX range "NAME". A # in the name
stands for a number that differs.`
