package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ingero/internal/config"
	"ingero/internal/diff"
	"ingero/internal/explain"
	"ingero/internal/mcp"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// clock returns the current time in UTC.
func (e *Env) clock() time.Time { return e.now(true) }

// machine returns the MCP answers that do not come from the database.
func (e *Env) machine(c *config.Config) mcp.Machine {
	var demo sync.Mutex // one demo at a time: each replays a whole recording
	return mcp.Machine{
		Check: func(ctx context.Context) (wire.Check, error) { return e.check(ctx, 0) },
		Stuck: func(_ context.Context, least time.Duration) (*wire.Stuck, error) {
			return e.findStuckCalls(time.Now(), least, nil)
		},
		Demo: func(ctx context.Context, name string) (*wire.Report, error) {
			demo.Lock()
			defer demo.Unlock()
			return e.demoReport(ctx, name)
		},
		Diff: func(ctx context.Context, a, b, process string) (*wire.Diff, error) {
			return e.compareRuns(ctx, c, a, b, process)
		},
		TestReport: func() ([]byte, error) { return testReport(c.Serve.TestReport) },
		Fleet: func(ctx context.Context, q *mcp.FleetQuestion) (*mcp.FleetAnswer, error) {
			return e.queryFleet(ctx, c, q)
		},
		Words: func(err error) (*mcp.Refusal, bool) {
			var p *problem
			if !errors.As(err, &p) {
				return nil, false
			}
			return &mcp.Refusal{What: oneLine(p.What), Do: oneLine(p.Do)}, true
		},
	}
}

// demoReport replays a scenario's recording and returns its report.
func (e *Env) demoReport(ctx context.Context, name string) (*wire.Report, error) {
	list, err := chosen([]string{name})
	if err != nil {
		return nil, err
	}
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = nowhere.Close() }()
	quiet := *e
	quiet.Stdout, quiet.Stderr = nowhere, nowhere
	d := &demo{env: &quiet, demoOptions: demoOptions{scenario: list[0].scenario, json: true, recorded: true}, seen: &collector{gaps: tick.Gaps{}}}
	if _, err := d.show(ctx, errors.New("it is a recording")); err != nil {
		return nil, err
	}
	return explain.BuildReport(d.input()), nil
}

// maxTestReport limits the size of the report of make test-gpu, in bytes.
const maxTestReport = 4 << 20

func testReport(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &problem{What: "no GPU test report found", Do: "create one with make test-gpu; set its path with ingero mcp --test-report PATH", Err: err}
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxTestReport))
}

// compareRuns compares two runs that an assistant names.
func (e *Env) compareRuns(ctx context.Context, c *config.Config, a, b, process string) (_ *wire.Diff, err error) {
	r, err := query.Open(ctx, e.databasePath(c))
	if err != nil {
		return nil, databaseProblem(e.databasePath(c), err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	all, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if b == "" {
		b = latestOther(all, a)
	}
	if a == "" {
		a = latestOther(all, b)
	}
	if a == "" || b == "" {
		return nil, &problem{What: "fewer than two recordings to compare", Do: "name time ranges: a=FROM..TO"}
	}
	var o diff.Options
	if process != "" {
		o.Programs = []string{process}
	}
	var runs [2]*diff.Run
	for i, side := range [...]string{a, b} {
		x, run, err := e.diffSide(ctx, r, all, side, o)
		if x != nil && x != r {
			defer func() { err = errors.Join(err, x.Close()) }()
		}
		if err != nil {
			return nil, err
		}
		run.Path = side
		runs[i] = run
	}
	result, err := diff.Compare(ctx, runs[0], runs[1])
	if err != nil {
		return nil, err
	}
	return explain.BuildDiff(result), nil
}

// latestOther returns the latest recording that is not a side already, "" for none. all begins with
// the latest.
func latestOther(all []query.Session, side string) string {
	for i := range all {
		if all[i].ID != side {
			return all[i].ID
		}
	}
	return ""
}

// diffSide opens a side: a recording, a time range, or a file next to the database. The caller
// closes the returned reader if it is not r.
func (e *Env) diffSide(ctx context.Context, r *query.Reader, all []query.Session, side string, o diff.Options) (*query.Reader, *diff.Run, error) {
	if slices.ContainsFunc(all, func(s query.Session) bool { return s.ID == side }) {
		o.Session = side
		run, err := diff.Open(ctx, r, time.Time{}, time.Time{}, o)
		return r, run, err
	}
	if strings.Contains(side, "..") && !strings.Contains(side, "/") {
		from, to, err := e.span(side, true)
		if err != nil {
			return r, nil, err
		}
		run, err := diff.Open(ctx, r, from, to, o)
		return r, run, err
	}
	// Accept only a file name: an assistant must not choose directories.
	path := filepath.Join(filepath.Dir(r.Path()), side)
	if side == "" || side != filepath.Base(side) || !isThere(path) || isFolder(path) {
		return r, nil, &problem{What: fmt.Sprintf("no such run: %.60q", side), Do: "use the ID of a recording (ingero://sessions), FROM..TO, or the name of a file next to the database"}
	}
	x, err := query.Open(ctx, path)
	if err != nil {
		return nil, nil, databaseProblem(side, err)
	}
	run, err := diff.Open(ctx, x, time.Time{}, time.Time{}, o)
	return x, run, err
}
