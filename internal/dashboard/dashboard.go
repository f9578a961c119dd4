package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"ingero/internal/explain"
	"ingero/internal/guard"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/wire"
)

// Options configure the server.
type Options struct {
	Node, Version string
	Path          func() string    // path of the database, called for each request
	Now           func() time.Time // the clock
	// Report returns what was lost in a window, and why. The error is a [query.ErrNoSession] if
	// nothing was recorded in it.
	Report func(context.Context, *query.Reader, *Question) (*explain.Input, error)
	// Fleet queries the other machines about a window, and returns notes about the answers; nil: no
	// other machines are configured.
	Fleet func(ctx context.Context, from, to time.Time) ([]wire.Machine, []string, error)
	Done  <-chan struct{} // closed when the server ends; nil: never
	Log   *slog.Logger
}

// Limits of requests.
const (
	atOnce         = 4
	patience       = 5 * time.Second
	requestTimeout = 30 * time.Second
	copyTimeout    = 10 * time.Minute
)

// Path is a row of the API.
type Path struct {
	Method, Path string
	About        string
	Params       string // its own parameters, besides those of every window; docs only
	Window       string // default window: "", or a duration back
	long         bool   // it takes minutes, and writes its own response
	limit        int    // default limit; 0: 100
	buckets      int    // default; 0: 120
	labels       bool   // the parameter label selects calls
	slo          bool   // the parameter slo selects requests

	answer func(*request) (any, error)
}

// Paths is the table of the API.
var Paths = []Path{
	{Method: "GET", Path: "/api/v1/overview", About: "what is recorded: recordings, calls, causes, the machine's last state, its GPUs, the most severe cause of the last hour", answer: (*request).overview},
	{Method: "GET", Path: "/api/v1/ops", Window: "5m", Params: "`per_process=1`: one row per process; `sums=1`: sums and mergeable sketches instead of quantiles; `label=tenant=a,epoch=3`: only calls with these labels (a comma in a value: `\\,`); `by=label:tenant`: one row per value of the label", labels: true,
		About: "counts, times and quantiles of each operation", answer: (*request).ops},
	{Method: "GET", Path: "/api/v1/chains", Window: "1h", Params: "`label`: as for /api/v1/explain", labels: true, About: "the causes of lost time that were found, with severity, root cause and timeline, most severe first", answer: (*request).chains},
	{Method: "GET", Path: "/api/v1/snapshots", Window: "60s", About: "CPU, memory, swap and load of the machine, and the CPU and memory that ingero uses, per second; for a long window every n-th second", answer: (*request).snapshots},
	{Method: "GET", Path: "/api/v1/capabilities", About: "which data exist, and what supplies the missing data", answer: (*request).capabilities},
	{Method: "GET", Path: "/api/v1/graph-metrics", Window: "5m", Params: "`label`: as for /api/v1/ops", labels: true, About: "CUDA graphs: captures, instantiations and launches with durations, and the life cycle of each graph", answer: (*request).graphMetrics},
	{Method: "GET", Path: "/api/v1/graph-events", Window: "5m", Params: "`limit`: maximum number of calls (100); `label`", labels: true, About: "the last calls that created, changed or launched graphs, with handles and durations", answer: (*request).graphEvents},
	{Method: "GET", Path: "/api/v1/time", About: "the machine's name and clock", answer: (*request).time},
	{Method: "POST", Path: "/api/v1/query", About: "runs one read-only SQL statement: `{\"sql\": \"SELECT ...\", \"limit\": 100, \"timeout_ms\": 5000}`, as application/json", answer: (*request).query},
	{Method: "GET", Path: "/api/v1/explain", Window: "5m", Params: "`zone=CET:3600`: time zone of the text, with its offset from UTC in seconds; `label=tenant=a`: only the time in which processes had these labels", labels: true, About: "the report of the causes found during recording, as JSON and as text", answer: (*request).explain},
	{Method: "GET", Path: "/api/v1/stacks", Window: "5m", Params: "`limit`: maximum number of rows (100); `label`", labels: true, About: "time of calls by line of code, with stacks, longest time first", answer: (*request).stacks},
	{Method: "GET", Path: "/api/v1/collectives", Window: "5m", About: "which collectives the ranks of NCCL communicators entered, and when", answer: (*request).collectives},
	{Method: "GET", Path: "/api/v1/timeline", Window: "5m", Params: "`buckets`: maximum number of time buckets (120, up to 300); `limit`: maximum number of rows (16, up to 32)",
		About: "where the time of each process and thread went, per bucket: GPU wait, calls, between calls, runnable by the process that had the CPU, blocked by reason", limit: 16, answer: (*request).timeline},
	{Method: "GET", Path: "/api/v1/heatmap", Window: "5m", Params: "`buckets`; `limit`: maximum number of operations (6, up to 16); `label`", labels: true, About: "latency over time: for each operation, the number of calls by latency and bucket", limit: 6, answer: (*request).heatmap},
	{Method: "GET", Path: "/api/v1/flame", Window: "5m", Params: "`what`: time, gpu_wait, runnable, calls, memory; `limit`: maximum number of nodes of the tree (2000)",
		About: "call tree of processes, functions, lines and operations, with the time spent or the GPU memory held", limit: 2000, answer: (*request).flame},
	{Method: "GET", Path: "/api/v1/memory", Window: "5m", Params: "`buckets` (300)", About: "GPU memory and pinned host memory that each process held, per bucket", buckets: maxBuckets, answer: (*request).memory},
	{Method: "GET", Path: "/api/v1/gpus", Window: "5m", Params: "`buckets` (300)", About: "state of the GPUs, per bucket, and their faults", buckets: maxBuckets, answer: (*request).gpus},
	{Method: "GET", Path: "/api/v1/requests", Window: "5m", Params: "`label`: only requests that arrived while the server had these labels; `slo=ttft=200ms`, `tpot=30ms` or `total=5s`: what the requests waited for that missed this objective", labels: true, slo: true,
		About: "HTTP requests to servers, by process and port: times, what they waited for, the slowest; the steps of inference servers' engines, and what the servers report of themselves", answer: (*request).requests},
	{Method: "GET", Path: "/api/v1/processes", Window: "5m", Params: "`limit`: maximum number of processes (100)", About: "the processes that made calls, and their threads", answer: (*request).processes},
	{Method: "GET", Path: "/api/v1/recordings", Params: "`limit`: maximum number of recordings (100)", About: "the recordings, latest first", answer: (*request).listRecordings},
	{Method: "GET", Path: "/api/v1/communicators", Window: "5m", About: "NCCL communicators and their last operation", answer: (*request).communicators},
	{Method: "GET", Path: "/api/v1/fleet", Window: "1h", About: "causes found on the nodes of `fleet.nodes`, and the nodes that did not answer", answer: (*request).fleet},
	{Method: "GET", Path: updatesPath, About: "server-sent events until the client disconnects: `hello`, then `data` after new records and `chain` when a cause appears, changes or ends", answer: nil},
	{Method: "GET", Path: "/api/v1/backup", About: "the database as one file, as `ingero backup` writes it", long: true, answer: (*request).backup},
}

// Handler serves the API and the page. Once no more requests come, end waits for the handler's
// pending work.
func Handler(o Options) (h http.Handler, end func()) {
	s := newServer(o)
	mux := http.NewServeMux()
	for i := range Paths {
		if Paths[i].answer != nil {
			mux.HandleFunc(Paths[i].Path, s.serve(&Paths[i]))
		}
	}
	mux.HandleFunc(updatesPath, s.news.serve)
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc(assets, s.page)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		guard.Refuse(w, http.StatusNotFound, "there is no such path", "GET / lists the paths")
	})
	return mux, func() {
		s.news.end()
		s.open.end()
	}
}

func newServer(o Options) *server {
	s := &server{Options: o, slots: make(chan struct{}, atOnce), open: newOpener(o.Path), overviews: lastOverview{turn: make(chan struct{}, 1)}}
	s.news = updates{s: s, every: lookEvery}
	return s
}

type server struct {
	Options
	slots     chan struct{}
	copying   sync.Mutex // held while a copy is made and sent
	open      *opener
	news      updates
	overviews lastOverview
	gzipped   sync.Map // compressed parts of the page, by tag
}

// request is one request.
type request struct {
	*server
	ctx context.Context
	w   http.ResponseWriter
	r   *http.Request
	row *Path
	db  *query.Reader
	q   Question

	recordings []string // IDs of the recordings in the sums
}

// serve handles a row's requests.
func (s *server) serve(row *Path) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != row.Method && !(row.Method == http.MethodGet && r.Method == http.MethodHead) {
			w.Header().Set("Allow", row.Method)
			guard.Refuse(w, http.StatusMethodNotAllowed, row.Path+" supports only "+row.Method, "")
			return
		}
		limit := requestTimeout
		if row.long {
			limit = copyTimeout
		}
		ctx, stop := context.WithTimeout(r.Context(), limit)
		defer stop()
		a := &request{server: s, ctx: ctx, w: w, r: r, row: row}
		answer, err := a.do()
		if err != nil {
			status, why, do := describeError(err)
			s.Log.Debug("request failed", "path", row.Path, "status", status, "error", err)
			guard.Refuse(w, status, why, do)
			return
		}
		if answer == nil { // already written
			return
		}
		a.write(answer)
	}
}

// do computes the answer.
func (a *request) do() (any, error) {
	if a.row.Path == "/api/v1/time" { // without a queue: clocks are compared by it
		return a.time()
	}
	var err error
	if a.q, err = a.question(); err != nil {
		return nil, err
	}
	place, stop := context.WithTimeout(a.ctx, patience)
	defer stop()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-place.Done():
		return nil, &refusal{http.StatusServiceUnavailable, "the server is busy", "retry later"}
	}
	db, release, err := a.open.reader()
	if err != nil {
		return nil, err
	}
	defer release()
	a.db = db
	if err := a.anchor(); err != nil {
		return nil, err
	}
	return a.row.answer(a)
}

func (a *request) write(answer any) {
	text, ok := answer.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(answer); err != nil {
			guard.Refuse(a.w, http.StatusInternalServerError, "the answer cannot be written as JSON", "")
			a.Log.Debug("an answer cannot be encoded as JSON", "path", a.row.Path, "error", err)
			return
		}
	}
	text = append(text, '\n')
	a.w.Header().Set("Content-Type", "application/json")
	if len(text) > worthPacking && takesGzip(a.r) {
		a.w.Header().Set("Content-Encoding", "gzip")
		text = pack(text)
	}
	_, _ = a.w.Write(text) // the client may be gone
}

// worthPacking is the minimum length of a compressed answer, in bytes.
const worthPacking = 4 << 10

// refusal is the reason for not answering a question.
type refusal struct {
	status int
	reason string
	do     string
}

// Error returns both.
func (r *refusal) Error() string { return r.reason + ": " + r.do }

// describeError describes an error to a client, without paths of the machine.
func describeError(err error) (status int, why, do string) {
	var refused *refusal
	var wrong *query.SQLError
	var missing query.Missing
	switch {
	case errors.As(err, &missing):
		return http.StatusNotFound, missing.Error(), missing.Do()
	case errors.As(err, &refused):
		return refused.status, refused.reason, refused.do
	case errors.As(err, &wrong):
		return http.StatusBadRequest, "the statement cannot be run: " + wrong.What, wrong.Do
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusUnprocessableEntity, "the query timed out", "use a shorter time range, or narrow the statement down with WHERE"
	case errors.Is(err, query.ErrNoSession), errors.Is(err, query.ErrNoDatabase):
		return http.StatusNotFound, "nothing was recorded in that time", "record with sudo ingero trace"
	case errors.Is(err, query.ErrNoCalls):
		return http.StatusNotFound, "the calls of that time were deleted", ""
	case errors.Is(err, query.ErrLost), store.Damaged(err):
		return http.StatusInternalServerError, "the database is damaged", "run ingero db verify on that machine"
	}
	return http.StatusInternalServerError, "the database cannot be read", "run ingero dashboard --debug on that machine to see the reason"
}
