package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Answer is a machine's answer.
type Answer[T any] struct {
	*Machine
	Value T
	Took  time.Duration
}

// Question is a request to the machines. Path begins with a slash.
type Question struct {
	Path   string
	Params url.Values
	// From and To are the window for Params, by this machine's clock; zero: none. A machine with
	// clock skew gets the window by its own clock.
	From, To time.Time
	Body     any // posted as JSON; nil: nothing
}

// Query queries all met machines at once, and returns the answers and the problems in the order in
// which the machines were named.
func Query[T any](ctx context.Context, f *Fleet, q Question) ([]Answer[T], []Problem) {
	out := make([]*Answer[T], len(f.met))
	failed := make([]*Problem, len(f.met))
	var all sync.WaitGroup
	for i, m := range f.met {
		all.Go(func() {
			ctx, stop := context.WithTimeout(ctx, f.o.Timeout)
			defer stop()
			began := time.Now()
			a := &Answer[T]{Machine: m}
			if err := f.query(ctx, m, &q, maxAnswer, func(body io.Reader) error { return decode(body, &a.Value) }); err != nil {
				p := f.problem(m.node, m.Name, err)
				failed[i] = &p
				return
			}
			a.Took = time.Since(began)
			out[i] = a
		})
	}
	all.Wait()
	answers, problems := []Answer[T]{}, []Problem{}
	for i := range out {
		if out[i] != nil {
			answers = append(answers, *out[i])
		} else {
			problems = append(problems, *failed[i])
		}
	}
	f.noteSlow(len(answers), func(i int) (string, time.Duration) { return answers[i].Name, answers[i].Took })
	return answers, problems
}

// Times from which a machine is reported as slow.
const (
	lateLeast = time.Second
	lateTimes = 4
)

// noteSlow records which of n machines were slow.
func (f *Fleet) noteSlow(n int, result func(i int) (string, time.Duration)) {
	var took []time.Duration
	for i := range n {
		_, d := result(i)
		took = append(took, d)
	}
	slices.Sort(took)
	if n < 2 {
		return
	}
	usual := took[(n-1)/2]
	for i := range n {
		if name, d := result(i); d > lateLeast && d > lateTimes*usual && !f.slow[name] {
			f.slow[name] = true
			f.note("%s was slow: it took %s, the other nodes about %s", name, d.Round(10*time.Millisecond), usual.Round(time.Millisecond))
		}
	}
}

func (f *Fleet) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// Notes returns the notes about the answers since the last call.
func (f *Fleet) Notes() []string {
	out := f.notes
	f.notes = nil
	return out
}

// query queries one machine and passes its answer's body to read.
func (f *Fleet) query(ctx context.Context, m *Machine, q *Question, most int64, read func(io.Reader) error) (err error) {
	r, err := f.request(ctx, m, q)
	if err != nil {
		return err
	}
	res, err := m.node.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	body := &limited{r: res.Body, left: most}
	if res.StatusCode != http.StatusOK {
		return refusal(res.StatusCode, body)
	}
	if err := read(body); err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, body, 1<<10) // drain it, so that the connection is reused
	return nil
}

// Close closes the connections.
func (f *Fleet) Close() {
	for _, n := range f.nodes {
		n.http.CloseIdleConnections()
	}
}

func (f *Fleet) request(ctx context.Context, m *Machine, q *Question) (*http.Request, error) {
	u := *m.node.base
	u.Path = q.Path
	params := url.Values{}
	for k, v := range q.Params {
		params[k] = v
	}
	for name, t := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !t.IsZero() {
			params.Set(name, fmt.Sprint(t.Add(f.shift(m)).UnixNano()))
		}
	}
	u.RawQuery = params.Encode()
	method, body := http.MethodGet, io.Reader(nil)
	if q.Body != nil {
		text, err := json.Marshal(q.Body)
		if err != nil {
			return nil, err
		}
		method, body = http.MethodPost, bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "ingero")
	r.Header.Set("Accept", "application/json")
	if q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if f.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+f.o.Token)
	}
	return r, nil
}

// refusal reads an error response.
func refusal(status int, body io.Reader) error {
	const most = 4 << 10
	text, _ := io.ReadAll(io.LimitReader(body, most)) // use what arrived
	e := &statusError{status: status}
	var reply struct{ Error, Do string }
	if json.Unmarshal(text, &reply) == nil {
		e.what, e.do = printable(reply.Error, 200), printable(reply.Do, 200)
	} else if status == http.StatusBadRequest {
		e.what = printable(strings.TrimSpace(string(text)), 200)
	}
	return e
}

// decode reads one JSON value.
func decode(body io.Reader, to any) error {
	d := json.NewDecoder(body)
	if err := d.Decode(to); err != nil {
		if errors.Is(err, errLarge) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	return nil
}

// limited reads at most a number of bytes; more are an error.
type limited struct {
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLarge
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Copy writes each machine's database to the file that create creates for it, one at a time, and
// returns the problems. A machine that sends nothing for the time limit is one.
func (f *Fleet) Copy(ctx context.Context, create func(m *Machine) (io.WriteCloser, error)) (problems []Problem, err error) {
	for _, m := range f.met {
		w, err := create(m)
		if err != nil {
			return nil, err
		}
		asked := f.copyOf(ctx, m, w)
		if err := w.Close(); err != nil {
			return nil, err
		}
		if asked != nil {
			problems = append(problems, f.problem(m.node, m.Name, asked))
		}
	}
	return problems, ctx.Err()
}

// copyOf writes a machine's database to w. It times out if the machine sends nothing for the time
// limit of an answer: the whole database may take longer.
func (f *Fleet) copyOf(ctx context.Context, m *Machine, w io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(f.o.Timeout, func() { stop(context.DeadlineExceeded) })
	defer idle.Stop()
	err := f.query(ctx, m, &Question{Path: "/api/v1/backup"}, maxCopy, func(body io.Reader) error {
		n, err := io.Copy(w, &watched{body, idle, f.o.Timeout})
		return cmp.Or(err, emptyError(n))
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watched restarts a timer at each read that returns something.
type watched struct {
	r     io.Reader
	idle  *time.Timer
	after time.Duration
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.idle.Reset(w.after)
	}
	return n, err
}

func emptyError(n int64) error {
	if n == 0 {
		return errAnswer
	}
	return nil
}
