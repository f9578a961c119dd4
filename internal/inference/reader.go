package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingero/internal/backoff"
	"ingero/internal/redact"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// Options configures a [Reader]. The zero value suits most uses.
type Options struct {
	// URLs are further endpoints, in ingero's network namespace: "http://10.0.0.5:8000/metrics", or
	// "4821=http://10.0.0.5:8000/metrics" for the server with PID 4821.
	URLs    []string
	Every   time.Duration    // between two reads of a server; 0: 5 s
	Timeout time.Duration    // of a read; 0: 1 s
	Now     func() time.Time // nil: a session's clock: the wall clock at New plus the time since
	// After delivers once, after d; nil: [time.After].
	After func(d time.Duration) <-chan time.Time
}

const (
	// maxServers bounds the servers that are read, and maxReads the reads that nobody has taken. A
	// log has the reads of a tick in one entry of at most 1 MiB.
	maxServers = 32
	maxReads   = 32
	// slowest is the longest delay between two tries of a server that cannot be read.
	slowest = time.Minute
)

// Reader reads the metrics of inference servers. Its methods are safe for concurrent use.
type Reader struct {
	o     Options
	fixed map[target]bool // endpoints that the user named
	bound map[uint32]bool // servers whose endpoint the user named

	changed chan struct{} // has room for one
	mu      sync.Mutex
	looked  time.Time
	wanted  map[target]bool
	reads   []tick.Inference
}

// target is an endpoint to read.
type target struct {
	pid           uint32 // of the server; 0: unknown
	engine, model string // empty: unknown
	url           string
	shown         string // of a URL with a query: the URL without its values, which can be secrets
	namespace     uint32 // process whose network namespace has the endpoint; 0: ingero's own
}

// steady returns a clock that steps of the wall clock do not move. Its times have no monotonic reading:
// they are compared with those of calls.
func steady(began time.Time) func() time.Time {
	return func() time.Time { return began.Add(time.Since(began)).Round(0) }
}

// New returns a reader. It rejects invalid URLs.
func New(o Options) (*Reader, error) {
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Now == nil {
		o.Now = steady(time.Now())
	}
	if o.After == nil {
		o.After = time.After
	}
	r := &Reader{o: o, fixed: map[target]bool{}, bound: map[uint32]bool{}, changed: make(chan struct{}, 1)}
	urls := map[string][]string{} // with a query, by shown URL
	for _, text := range o.URLs {
		t, err := parseURL(text)
		if err != nil {
			return nil, err
		}
		if base := shown(t.url); base != t.url {
			if !slices.Contains(urls[base], t.url) {
				urls[base] = append(urls[base], t.url)
			}
			if t.shown = base; slices.Index(urls[base], t.url) > 0 { // the query alone differs
				t.shown += strconv.Itoa(slices.Index(urls[base], t.url) + 1)
			}
		}
		if t.pid != 0 {
			r.bound[t.pid] = true
		}
		r.fixed[t] = true
	}
	if len(r.fixed) > maxServers {
		return nil, fmt.Errorf("%d endpoints exceed the limit of %d", len(r.fixed), maxServers)
	}
	r.wanted = r.fixed
	r.changed <- struct{}{}
	return r, nil
}

// parseURL parses an entry of [Options].URLs.
func parseURL(text string) (t target, err error) {
	t.url = text
	if pid, rest, bound := strings.Cut(text, "="); bound && !strings.ContainsAny(pid, ":/") {
		n, err := strconv.ParseUint(pid, 10, 32)
		if err != nil || n == 0 {
			return t, fmt.Errorf("%q does not start with a PID", text)
		}
		t.pid, t.url = uint32(n), rest
	}
	u, err := url.Parse(t.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return t, fmt.Errorf("%q is not a URL of metrics such as http://10.0.0.5:8000/metrics", text)
	}
	return t, nil
}

// shown returns a URL without the values of its query, which can be secrets.
func shown(address string) string {
	base, _, found := strings.Cut(address, "?")
	if found {
		base += "?" + redact.Hidden
	}
	return base
}

// Run reads servers until ctx ends. Then it waits for the reads in progress.
func (r *Reader) Run(ctx context.Context) {
	running := map[target]context.CancelFunc{}
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
		r.mu.Lock()
		wanted := r.wanted
		r.mu.Unlock()
		for t, cancel := range running {
			if !wanted[t] {
				cancel()
				delete(running, t)
			}
		}
		for t := range wanted {
			if running[t] == nil {
				inner, cancel := context.WithCancel(ctx)
				running[t] = cancel
				work.Go(func() {
					defer cancel()
					r.watch(inner, t)
				})
			}
		}
	}
}

// See names the processes of the machine, among which the reader finds servers. It does not wait.
func (r *Reader) See(processes, others []tick.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.o.Now(); !r.looked.IsZero() && now.Sub(r.looked) < r.o.Every {
		return
	} else {
		r.looked = now
	}
	wanted := make(map[target]bool, len(r.wanted))
	for t := range r.fixed {
		wanted[t] = true
	}
	for _, t := range targets(processes, others) {
		if !r.bound[t.pid] && len(wanted) < maxServers {
			wanted[t] = true
		}
	}
	same := len(wanted) == len(r.wanted)
	for t := range wanted {
		same = same && r.wanted[t]
	}
	if r.wanted = wanted; !same {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// targets returns the servers of traced jobs whose endpoint is known, by order of the processes.
func targets(processes, others []tick.Process) (out []target) {
	for _, x := range where.Servers(processes, others) {
		e := &x.Engine
		if s := serverOf(e.Name); s != nil && e.Port != 0 {
			port, _ := e.Port.Value()
			if s.port != "" {
				port = where.PortOption(x.Cmdline, s.port, s.at)
			}
			out = append(out, target{pid: x.PID, engine: e.Name, model: e.Model, namespace: x.PID,
				url: fmt.Sprintf("http://%s:%d%s", loopback, port, s.path)})
		}
	}
	return out
}

// Take returns the reads since the last call, in the order in which they ended.
func (r *Reader) Take() []tick.Inference {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.reads
	r.reads = nil
	return out
}

// put queues a read. If nobody takes the reads, it evicts the oldest.
func (r *Reader) put(x *tick.Inference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reads) >= maxReads {
		r.reads = r.reads[1:]
	}
	r.reads = append(r.reads, *x)
}

// watch reads an endpoint until ctx or the server ends.
func (r *Reader) watch(ctx context.Context, t target) {
	client := t.client(r.o.Timeout)
	slower := backoff.Delays{First: r.o.Every, Most: slowest}
	var last *state // at the last successful read
	var since time.Time
	for {
		now, engine, err := t.read(ctx, client)
		if ctx.Err() != nil || errors.Is(err, errEnded) {
			return
		}
		x := &tick.Inference{Time: r.o.Now(), PID: t.pid, Engine: engine, Model: t.model, URL: cmp.Or(t.shown, t.url)}
		wait := r.o.Every
		if err != nil {
			x.Why, x.Do = t.explain(err, r.o.Timeout)
			wait = slower.Next()
		} else {
			if last != nil && now.restarted(last) {
				last = nil
			}
			if last != nil {
				x.Since = since
			}
			now.fill(x, last)
			last, since, slower = now, x.Time, backoff.Delays{First: r.o.Every, Most: slowest}
		}
		r.put(x)
		select {
		case <-ctx.Done():
			return
		case <-r.o.After(wait):
		}
	}
}
