package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/dashboard/web"
	"ingero/internal/query"
	"ingero/internal/wire"
)

// ReportOptions select a report's content.
type ReportOptions struct {
	From, To time.Time  // both zero: the whole latest recording
	Params   url.Values // added to every question: pid, pod, node ...
	Bytes    int        // limit of the answers; 0: 16 MiB
}

// ReportResult describes a report's content.
type ReportResult struct {
	From, To time.Time
	Answers  int
	LeftOut  []string // questions whose answers did not fit
	Missing  []string // why some have no answer
}

// mostReport bounds a report's answers, in bytes.
const mostReport = 16 << 20

// Limits of single processes and operations in a report.
const (
	reportProcesses = 8
	reportOps       = 8
)

// reportQuestion is a question with its answer in a report. window is set if it needs a window.
type reportQuestion struct {
	path   string // after /api/v1/
	params url.Values
	window bool
	sized  bool // it has buckets
}

// key returns the question's name in the file: without its window and common parameters.
func (q *reportQuestion) key() string {
	k := "/api/v1/" + q.path
	var words []string
	for name, v := range q.params {
		words = append(words, name+"="+v[0])
	}
	slices.Sort(words)
	if len(words) > 0 {
		k += "?" + strings.Join(words, "&")
	}
	return k
}

// reportAlways are the page's first questions.
var reportAlways = []reportQuestion{
	{path: "overview"}, {path: "recordings"}, {path: "capabilities"}, {path: "processes", window: true}, {path: "explain", window: true}, {path: "chains", window: true},
	{path: "timeline", window: true, sized: true}, {path: "heatmap", window: true, sized: true}, {path: "ops", window: true}, {path: "ops", params: url.Values{"per_process": {"1"}}, window: true},
	flameQuestion("time"), flameQuestion("gpu_wait"), flameQuestion("runnable"), flameQuestion(flameMemory),
	{path: "memory", window: true, sized: true}, {path: "gpus", window: true, sized: true}, {path: "requests", window: true}, {path: "collectives", window: true}, {path: "communicators", window: true},
	{path: "graph-metrics", window: true}, {path: "snapshots", window: true},
}

func flameQuestion(what string) reportQuestion {
	return reportQuestion{path: "flame", params: url.Values{"what": {what}}, window: true}
}

// reportOfProcess are the page's questions about one process, reportOfOp those about one operation.
var (
	reportOfProcess = []string{"explain", "timeline", "heatmap", "ops", "ops?per_process=1", "flame?what=time", "memory", "requests", "collectives", "graph-metrics"}
	reportOfOp      = []string{"heatmap", "ops", "ops?per_process=1", "flame?what=time"}
)

// narrowed returns questions with one more parameter.
func narrowed(paths []string, name, value string) (out []reportQuestion) {
	for _, p := range paths {
		path, query, _ := strings.Cut(p, "?")
		params, _ := url.ParseQuery(query) // from the table
		params.Set(name, value)
		out = append(out, reportQuestion{path, params, true, path == "timeline" || path == "heatmap" || path == "memory"})
	}
	return out
}

// reporting is a report under construction.
type reporting struct {
	*server
	o   *ReportOptions
	out wire.ReportFile
	res ReportResult
	n   int // bytes so far
}

// WriteReport writes the page with its answers as one self-contained file. The error is a
// [query.ErrNoSession] if nothing was recorded in that time, and one of package query's if the
// database cannot be read.
func WriteReport(ctx context.Context, w io.Writer, o Options, q ReportOptions) (*ReportResult, error) {
	if q.Bytes == 0 {
		q.Bytes = mostReport
	}
	r := &reporting{server: newServer(o), o: &q}
	defer r.open.end()
	r.out = wire.ReportFile{Version: wire.Version, Made: o.Now().UTC().Truncate(time.Second), Node: o.Node, Answers: map[string]json.RawMessage{}, Errors: map[string]wire.Refusal{}}
	if err := r.frame(ctx); err != nil {
		return nil, err
	}
	for i := range reportAlways {
		if err := r.add(ctx, &reportAlways[i]); err != nil {
			return nil, err
		}
	}
	for _, x := range r.narrower() {
		if err := r.add(ctx, &x); err != nil {
			return nil, err
		}
	}
	r.out.Errors["/api/v1/fleet"] = wire.Refusal{Error: "A report covers one database.", Do: "Run ingero dashboard, which queries the nodes of fleet.nodes."}
	r.res.From, r.res.To, r.res.Answers = r.out.From, r.out.To, len(r.out.Answers)
	text, err := json.Marshal(r.out) // escapes HTML's characters
	if err != nil {
		return nil, err
	}
	return &r.res, web.Report(w, text)
}

// frame determines the window.
func (r *reporting) frame(ctx context.Context) error {
	db, release, err := r.open.reader()
	if err != nil {
		return err
	}
	defer release()
	r.out.From, r.out.To = r.o.From.UTC(), r.o.To.UTC()
	if !r.o.From.IsZero() || !r.o.To.IsZero() {
		if r.o.To.IsZero() {
			r.out.To = r.Now().UTC()
		}
		return nil
	}
	s, err := db.Session(ctx, "")
	if err != nil {
		return err
	}
	r.out.From, r.out.To = s.Started.UTC(), s.Updated.Add(1).UTC()
	if s.Ended.After(s.Updated) {
		r.out.To = s.Ended.Add(1).UTC()
	}
	return nil
}

// add asks one question and keeps the answer if it fits.
func (r *reporting) add(ctx context.Context, q *reportQuestion) error {
	key := q.key()
	text, err := r.answer(ctx, q)
	var missing *query.NotRecordedError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &missing):
		return err
	case err != nil && (q.path == "overview" || q.path == "processes" && errors.Is(err, query.ErrNoSession)): // without these, the report has no content
		return err
	case err != nil:
		_, why, do := describeError(err)
		r.out.Errors[key] = wire.Refusal{Error: why, Do: do}
		if !errors.Is(err, query.ErrNoSession) {
			r.res.Missing = append(r.res.Missing, key+": "+why)
		}
	case r.n+len(text) > r.o.Bytes:
		r.out.Errors[key] = wire.Refusal{Error: "Left out: the file would be too large.", Do: "Run ingero report for a shorter time range."}
		r.res.LeftOut = append(r.res.LeftOut, key)
	default:
		r.n += len(text)
		r.out.Answers[key] = text
	}
	return nil
}

// answer answers a question as the server would.
func (r *reporting) answer(ctx context.Context, q *reportQuestion) (json.RawMessage, error) {
	i := slices.IndexFunc(Paths, func(p Path) bool { return p.Path == "/api/v1/"+q.path })
	v := url.Values{}
	for name, all := range r.o.Params {
		if q.window || name == "node" || name == "session" {
			v[name] = all
		}
	}
	for name, all := range q.params {
		v[name] = all
	}
	if q.window {
		v.Set("from", strconv.FormatInt(r.out.From.UnixNano(), 10))
		v.Set("to", strconv.FormatInt(r.out.To.UnixNano(), 10))
	}
	if q.sized {
		v.Set("buckets", strconv.Itoa(maxBuckets))
	}
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	a := &request{server: r.server, ctx: ctx, row: &Paths[i], r: &http.Request{Method: http.MethodGet, URL: &url.URL{Path: Paths[i].Path, RawQuery: v.Encode()}}}
	answer, err := a.do()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.path, err)
	}
	return json.Marshal(answer)
}

// narrower returns the questions about single processes and operations that a reader may open:
// those with most calls, and with most time.
func (r *reporting) narrower() (out []reportQuestion) {
	var listed struct {
		Processes []struct{ PID uint32 }
	}
	var heat struct {
		Names []string `json:"op_names"`
	}
	_ = json.Unmarshal(r.out.Answers["/api/v1/processes"], &listed) // without it there are none
	_ = json.Unmarshal(r.out.Answers["/api/v1/heatmap"], &heat)
	if len(listed.Processes) > 1 {
		for _, p := range listed.Processes[:min(len(listed.Processes), reportProcesses)] {
			out = append(out, narrowed(reportOfProcess, "pid", strconv.FormatUint(uint64(p.PID), 10))...)
		}
	}
	for _, op := range heat.Names[:min(len(heat.Names), reportOps)] {
		out = append(out, narrowed(reportOfOp, "op", op)...)
	}
	return out
}
