package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// Question is the content of a request.
type Question struct {
	From, To   time.Time // [From, To); both zero: the end of the latest recording, Window long
	Window     time.Duration
	Since      time.Duration // the given length up to the current time; 0: none
	PIDs       []uint32
	Ops        []events.Op
	Labels     []query.Label // that calls must have
	Objective  explain.Objective
	By         string // key of the label to group by; "": none
	Place      where.Selector
	Node       string // the recordings' machine; "": all
	Session    string // "": all in the window
	PerProcess bool
	Sums       bool
	Limit      int
	Buckets    int // number of time buckets
	Flame      int // index in flames
	Zone       *time.Location
}

// Limits of requests.
const (
	maxNames = 256
	maxLimit = 10_000

	maxBuckets = 300
)

// wrong returns the error for an invalid parameter.
func wrong(name, value, must string) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf("%s cannot be %.60q", name, value), "it must be " + must}
}

// question parses a request's parameters. It rejects unknown ones: otherwise nobody would notice
// that another question was answered.
func (a *request) question() (Question, error) {
	q := Question{Zone: time.UTC, Limit: cmp.Or(a.row.limit, 100), Buckets: cmp.Or(a.row.buckets, 120)}
	values, err := url.ParseQuery(a.r.URL.RawQuery)
	if err != nil {
		return q, &refusal{http.StatusBadRequest, "the parameters cannot be read", "write NAME=VALUE, separated by &"}
	}
	if a.row.Window != "" {
		q.Window, _ = time.ParseDuration(a.row.Window) // from the table
	}
	now := a.Now()
	for name, all := range values {
		set := params[name]
		switch {
		case set == nil:
			return q, &refusal{http.StatusBadRequest, fmt.Sprintf("there is no parameter %.40q", name), "see docs/reference/api.md for the parameters"}
		case len(all) > 1:
			return q, wrong(name, strings.Join(all, " "), "given once")
		}
		if err := set(&q, all[0], now); err != nil {
			return q, err
		}
	}
	if (len(q.Labels) > 0 || q.By != "") && !a.row.labels || q.By != "" && q.Sums {
		return q, &refusal{http.StatusBadRequest, a.row.Path + " cannot select or group by labels here", "see docs/reference/api.md for its parameters"}
	}
	if q.Objective.Limit > 0 && !a.row.slo {
		return q, &refusal{http.StatusBadRequest, a.row.Path + " has no requests to select by slo", "ask /api/v1/requests"}
	}
	if !q.From.IsZero() && q.To.IsZero() {
		q.To = now
	}
	if q.From.IsZero() && !q.To.IsZero() {
		if q.Window <= 0 {
			return q, &refusal{http.StatusBadRequest, "to needs from", "name both, or since"}
		}
		q.From = q.To.Add(-q.Window)
	}
	if !q.From.Before(q.To) && !q.To.IsZero() {
		return q, &refusal{http.StatusBadRequest, "from must be before to", ""}
	}
	return q, nil
}

// params are the parameters' parsers by name.
var params = map[string]func(q *Question, v string, now time.Time) error{
	"since": func(q *Question, v string, now time.Time) error {
		d, err := config.ParseDuration(v)
		if err != nil || d <= 0 {
			return wrong("since", v, "a duration: 5m, 1h, 2d")
		}
		q.From, q.To, q.Since = now.Add(-d), now, d
		return nil
	},
	"from": func(q *Question, v string, _ time.Time) (err error) { q.From, err = moment("from", v); return err },
	"to":   func(q *Question, v string, _ time.Time) (err error) { q.To, err = moment("to", v); return err },
	"pid": func(q *Question, v string, _ time.Time) error {
		for word := range strings.SplitSeq(v, ",") {
			n, err := strconv.ParseUint(word, 10, 31)
			if err != nil || len(q.PIDs) >= maxNames {
				return wrong("pid", v, "process IDs, separated by commas")
			}
			q.PIDs = append(q.PIDs, uint32(n))
		}
		return nil
	},
	"op": func(q *Question, v string, _ time.Time) error {
		for word := range strings.SplitSeq(v, ",") {
			ops := events.OpsNamed(word)
			if len(ops) == 0 || len(q.Ops) >= maxNames {
				return wrong("op", v, "names of operations, separated by commas")
			}
			for _, op := range ops {
				if !slices.Contains(q.Ops, op) {
					q.Ops = append(q.Ops, op)
				}
			}
		}
		return nil
	},
	"label": func(q *Question, v string, _ time.Time) (err error) {
		if q.Labels, err = query.ParseLabels(query.SplitLabels(v)); err != nil {
			return wrong("label", v, "labels, separated by commas: tenant=a,epoch=3")
		}
		return nil
	},
	"slo": func(q *Question, v string, _ time.Time) (err error) {
		if q.Objective, err = explain.ObjectiveOf(v); err != nil {
			return wrong("slo", v, "ttft=200ms (time to the first byte), tpot=30ms (time between two events) or total=5s")
		}
		return nil
	},
	"by": func(q *Question, v string, _ time.Time) error {
		key, ok := strings.CutPrefix(v, "label:")
		if q.By = key; !ok || !tick.LabelKey(key) {
			return wrong("by", v, "label: and a key, as in label:tenant")
		}
		return nil
	},
	"node":        func(q *Question, v string, _ time.Time) error { q.Node = v; return nil },
	"session":     func(q *Question, v string, _ time.Time) error { q.Session = v; return nil },
	"pod":         func(q *Question, v string, _ time.Time) error { q.Place.Pod = v; return nil },
	"namespace":   func(q *Question, v string, _ time.Time) error { q.Place.Namespace = v; return nil },
	"container":   func(q *Question, v string, _ time.Time) error { q.Place.Container = v; return nil },
	"cgroup":      func(q *Question, v string, _ time.Time) error { q.Place.Cgroup = v; return nil },
	"job":         func(q *Question, v string, _ time.Time) error { q.Place.Job = v; return nil },
	"per_process": func(q *Question, v string, _ time.Time) error { return flag("per_process", v, &q.PerProcess) },
	"sums":        func(q *Question, v string, _ time.Time) error { return flag("sums", v, &q.Sums) },
	"limit": func(q *Question, v string, _ time.Time) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxLimit {
			return wrong("limit", v, fmt.Sprintf("a number from 1 to %d", maxLimit))
		}
		q.Limit = n
		return nil
	},
	"buckets": func(q *Question, v string, _ time.Time) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxBuckets {
			return wrong("buckets", v, fmt.Sprintf("a number from 1 to %d", maxBuckets))
		}
		q.Buckets = n
		return nil
	},
	"what": func(q *Question, v string, _ time.Time) error {
		var names []string
		for i := range flames {
			if names = append(names, flames[i].name); flames[i].name == v {
				q.Flame = i
				return nil
			}
		}
		return wrong("what", v, strings.Join(names, ", "))
	},
	"zone": func(q *Question, v string, _ time.Time) error {
		name, seconds, ok := strings.Cut(v, ":")
		n, err := strconv.Atoi(seconds)
		if !ok || err != nil || len(name) > 10 || n < -86400 || n > 86400 {
			return wrong("zone", v, "a name and the seconds east of Greenwich: CET:3600")
		}
		q.Zone = time.FixedZone(name, n)
		return nil
	},
}

func flag(name, v string, to *bool) error {
	switch v {
	case "1", "true":
		*to = true
	case "0", "false":
	default:
		return wrong(name, v, "1 or 0")
	}
	return nil
}

// moment parses RFC 3339 or a Unix time. The magnitude of a Unix time tells its unit: the units of
// the times from 1973 to 5138 do not overlap.
func moment(name, v string) (time.Time, error) {
	no := wrong(name, v, "a time before 2262: RFC 3339, or Unix seconds, milliseconds, microseconds or nanoseconds")
	if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
		if t.Year() < 1970 || t.Year() >= 2262 { // int64 Unix nanoseconds end in 2262
			return time.Time{}, no
		}
		return t, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, no
	}
	unit := int64(time.Second)
	for _, finer := range [...]int64{1e11, 1e14, 1e17} {
		if n >= finer {
			unit /= 1000
		}
	}
	if n > math.MaxInt64/unit || time.Unix(0, n*unit).UTC().Year() >= 2262 {
		return time.Time{}, no
	}
	return time.Unix(0, n*unit), nil
}

// anchor moves a window up to the current time to the clock of the recording that is being made.
func (a *request) anchor() error {
	if a.q.Since == 0 {
		return nil
	}
	all, err := a.db.Sessions(a.ctx)
	if err == nil {
		a.q.To = query.Now(all, a.q.To)
		a.q.From = a.q.To.Add(-a.q.Since)
	}
	return err
}

// sessions returns the question's recordings, oldest first, and sets the window: by default the end
// of the latest.
func (a *request) sessions() ([]query.Session, error) {
	all, err := a.db.Sessions(a.ctx)
	if err != nil {
		return nil, err
	}
	q := &a.q
	all = slices.DeleteFunc(all, func(s query.Session) bool {
		return q.Node != "" && s.Node != q.Node || q.Session != "" && s.ID != q.Session
	})
	if len(all) == 0 {
		return nil, query.ErrNoSession
	}
	if q.From.IsZero() && q.To.IsZero() {
		end := all[0].Updated
		if all[0].Ended.After(end) {
			end = all[0].Ended
		}
		q.From, q.To = end.Add(-q.Window), end.Add(1)
		if q.Window == 0 {
			q.From = all[0].Started
		}
		return all[:1], a.db.CheckRecorded(a.ctx, all[:1], q.PIDs)
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(s query.Session) bool {
		return !s.Started.Before(q.To) || s.State != "running" && s.Updated.Before(q.From) && s.Ended.Before(q.From)
	})
	if len(all) == 0 {
		return nil, query.ErrNoSession
	}
	return all, a.db.CheckRecorded(a.ctx, all, q.PIDs)
}

// nobody is an invalid pid.
const nobody = 1<<32 - 1

// filter returns the question's filter for one recording; comms are its processes' names.
func (a *request) filter(s *query.Session) (f query.Filter, comms map[uint32]string, err error) {
	f = query.Filter{Session: s.ID, PIDs: a.q.PIDs, Ops: a.q.Ops, Labels: a.q.Labels, From: a.q.From, To: a.q.To}
	all, err := a.db.Processes(a.ctx, s.ID)
	if err != nil {
		return f, nil, err
	}
	comms = map[uint32]string{}
	var in []uint32
	for i := range all {
		p := &all[i]
		comms[p.PID] = p.Comm
		if a.q.Place.Match(p.Cgroup, &p.Where) && (len(f.PIDs) == 0 || slices.Contains(f.PIDs, p.PID)) {
			in = append(in, p.PID)
		}
	}
	if a.q.Place != (where.Selector{}) {
		f.PIDs = append(in, nobody)
	}
	return f, comms, nil
}
