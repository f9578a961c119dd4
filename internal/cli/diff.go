package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/diff"
	"ingero/internal/explain"
	"ingero/internal/query"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	pids      []uint
	processes []string
	a, b      string
	failOn    string
	json, utc bool
}

func diffCommand(e *Env) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff A.db B.db",
		Short: "Compare two runs: the change per step, by part of the step and by call",
		Long: `diff compares the latest recordings of two databases, A and B. It shows how much longer a
step takes in B, and which parts of the time ledger changed: waiting for the GPU, calls,
time between calls, waiting for a CPU (and who used it), throttling by a CPU quota, and
blocking (and on what). It also shows the lines of the program where time changed, and
operations that are called more or less often.

diff matches processes by program and rank, not by PID. A step is a call that both runs
make once per step. A finding is a difference of at least 1 % of a step that also exceeds
the drift within the steadier run. Chance alone produces a finding in fewer than 1 of 100
comparisons of equal runs. Record at least 10 s of each run, better 60 s: diff reports no
finding for shorter runs. diff ignores the start of a run, and stalls that happened once.

--a and --b select part of a recording as FROM..TO; either end may be omitted. To compare
a job with itself, name the same database twice.
` + timesHelp + `

diff exits with code 4 if B is significantly slower by --fail-on or more.`,
		Example: `  ingero diff before.db after.db
  ingero diff before.db after.db --process train.py --fail-on 5%
  ingero diff x.db x.db --a 15:30..15:40 --b 15:41..
  ingero diff before.db after.db --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("ingero diff A.db B.db", "diff compares two databases, but got %d", len(args))
			}
			return nil
		},
	}
	f := c.Flags()
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "compare only these processes: 4821 or 4821,5032; PIDs of either run")
	f.StringSliceVar(&o.processes, "process", nil, "compare only processes of this program: train.py")
	f.StringVar(&o.a, "a", "", "time range of the first database: 15:30..15:40")
	f.StringVar(&o.b, "b", "", "time range of the second database")
	f.StringVar(&o.failOn, "fail-on", "", "exit with code 4 if B is slower per step by this much or more: 5%")
	f.BoolVar(&o.json, "json", false, "print JSON")
	bindUTC(f, &o.utc)
	c.RunE = func(c *cobra.Command, args []string) error { return e.diff(c.Context(), args, o) }
	return c
}

func (e *Env) diff(ctx context.Context, paths []string, o diffOptions) (err error) {
	limit, err := shareOf(o.failOn)
	if err != nil {
		return err
	}
	var runs [2]*diff.Run
	var missing error // set if neither run has the processes
	for i, span := range [...]string{o.a, o.b} {
		r, run, err := e.openRun(ctx, paths[i], span, &o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		runs[i] = run
		if err := r.CheckRecorded(ctx, []query.Session{run.Session}, numbers(o.pids)); i == 0 || err == nil {
			missing = err
		}
	}
	if missing != nil {
		return databaseProblem(paths[0], missing)
	}
	result, err := diff.Compare(ctx, runs[0], runs[1])
	if err != nil {
		return err
	}
	if o.json {
		if err := e.json(explain.BuildDiff(result)); err != nil {
			return err
		}
	} else if err := e.printf("%s", explain.Diff(result, explain.Options{Location: e.zone(o.utc)})); err != nil {
		return err
	}
	for i := range result.Pairs {
		if p := &result.Pairs[i]; limit > 0 && p.Step.Found && p.Relative() >= limit {
			return exitCode(exitFound)
		}
	}
	return nil
}

// openRun opens one of the two runs.
func (e *Env) openRun(ctx context.Context, path, span string, o *diffOptions) (_ *query.Reader, _ *diff.Run, err error) {
	var from, to time.Time
	if span != "" {
		if from, to, err = e.span(span, o.utc); err != nil {
			return nil, nil, err
		}
	}
	r, err := e.readAt(ctx, path, "")
	if err != nil {
		return nil, nil, err
	}
	opts := diff.Options{Programs: o.processes, PIDs: numbers(o.pids)}
	run, err := diff.Open(ctx, r, from, to, opts)
	if err != nil {
		return nil, nil, errors.Join(databaseProblem(r.Path(), err), r.Close())
	}
	run.Path = path // as the user gave it
	return r, run, nil
}

// span parses FROM..TO.
func (e *Env) span(text string, utc bool) (from, to time.Time, err error) {
	a, b, two := strings.Cut(text, "..")
	if !two || a == "" && b == "" {
		return from, to, usage("for example --a 15:30..15:40, --a 15:30.. or --a ..15:40", "%q is not a time range", text)
	}
	w, err := (&timeFlags{from: a, to: b}).between(e.now(utc))
	if b == "" {
		w.to = time.Time{}
	}
	return w.from, w.to, err
}

// shareOf parses a share, "5%" or "0.05"; it returns 0 for "".
func shareOf(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || v <= 0 || v > 100 || !percent && v >= 1 {
		return 0, usage("for example --fail-on 5%", "--fail-on cannot be %q: it must be a percentage", text)
	}
	return v, nil
}
