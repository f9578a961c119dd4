package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// memory is an answer of the read API, in memory.
type memory struct {
	bytes.Buffer
	head   http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (m *memory) Header() http.Header { return m.head }

// WriteHeader implements [http.ResponseWriter].
func (m *memory) WriteHeader(status int) { m.status = status }

// get queries the read API and decodes its answer.
func (s *server) get(ctx context.Context, path string, v url.Values, to any) error {
	return s.request(ctx, http.MethodGet, path+"?"+v.Encode(), nil, to)
}

// sql runs a statement.
func (s *server) sql(ctx context.Context, st wire.Statement) (*wire.Rows, error) {
	body, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	var out wire.Rows
	return &out, s.request(ctx, http.MethodPost, "/api/v1/query", body, &out)
}

func (s *server) request(ctx context.Context, method, path string, body []byte, to any) error {
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	m := &memory{head: http.Header{}, status: http.StatusOK}
	s.API.ServeHTTP(m, r)
	if m.status == http.StatusOK {
		return json.Unmarshal(m.Bytes(), to)
	}
	var why wire.Refusal
	if err := json.Unmarshal(m.Bytes(), &why); err != nil {
		return fmt.Errorf("the read API answered %d: %w", m.status, err)
	}
	return &apiRefusal{Refusal{why.Error, why.Do}, m.status}
}

// apiRefusal is a refusal of the read API.
type apiRefusal struct {
	Refusal
	status int
}

// Unwrap returns the refusal.
func (a *apiRefusal) Unwrap() error { return &a.Refusal }

// When is the time window of a question.
type When struct {
	Since string `json:"since,omitempty" jsonschema:"length of the time range up to now: 5m, 1h, 2d; default: the latest recording"`
	From  string `json:"from,omitempty" jsonschema:"start of the time range, in RFC 3339 or Unix seconds"`
	To    string `json:"to,omitempty" jsonschema:"end of the time range; default: now"`
}

// PIDs selects processes.
type PIDs struct {
	PID []uint32 `json:"pid,omitempty" jsonschema:"process IDs; default: all"`
}

// Labels select the time in which processes had labels.
type Labels struct {
	Label []string `json:"label,omitempty" jsonschema:"only the time in which processes had all these labels, which programs set: tenant=a"`
}

// longest is the default window of an ended recording.
const longest = 24 * time.Hour

// recordings returns up to limit recordings, latest first. Without any, it returns a [Refusal].
func (s *server) recordings(ctx context.Context, limit int) ([]wire.Recording, error) {
	var list wire.Recordings
	if err := s.get(ctx, "/api/v1/recordings", url.Values{"limit": {strconv.Itoa(limit)}}, &list); err != nil {
		return nil, err
	}
	if len(list.Recordings) == 0 {
		return nil, &Refusal{"nothing has been recorded yet", "record with sudo ingero trace, or name another database: ingero mcp --db"}
	}
	return list.Recordings, nil
}

// values returns the read API's parameters for a time and processes.
func (s *server) values(ctx context.Context, w When, p PIDs) (url.Values, error) {
	v := url.Values{}
	for name, text := range map[string]string{"since": w.Since, "from": w.From, "to": w.To} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if len(p.PID) > 0 {
		var list []string
		for _, pid := range p.PID {
			list = append(list, strconv.FormatUint(uint64(pid), 10))
		}
		v.Set("pid", strings.Join(list, ","))
	}
	if w != (When{}) {
		return v, nil
	}
	list, err := s.recordings(ctx, 1)
	if err != nil {
		return nil, err
	}
	last, back := &list[0], longest
	if last.State == "running" && s.Now().Sub(last.To) < time.Minute {
		back = 5 * time.Minute
	}
	from := last.To.Add(-back)
	if from.Before(last.From) {
		from = last.From
	}
	v.Set("from", from.UTC().Format(time.RFC3339Nano))
	v.Set("to", last.To.Add(1).UTC().Format(time.RFC3339Nano))
	return v, nil
}

// report is the report of a time range.
type report struct {
	*wire.Report
	text string // as printed for a person
}

// called returns a culprit's name.
func called(c *wire.Culprit) string { return cmp.Or(c.Name, c.What) }

// report requests the report.
func (s *server) report(ctx context.Context, v url.Values) (*report, error) {
	var w wire.Explained[wire.Report]
	if err := s.get(ctx, "/api/v1/explain", v, &w); err != nil {
		return nil, err
	}
	return &report{&w.Report, w.Text}, nil
}

// labelled is values with labels.
func (s *server) labelled(ctx context.Context, w When, p PIDs, l Labels) (url.Values, error) {
	v, err := s.values(ctx, w, p)
	if err == nil && len(l.Label) > 0 {
		v.Set("label", query.JoinLabels(l.Label))
	}
	return v, err
}

// reportFor is report with a tool's parameters.
func (s *server) reportFor(ctx context.Context, w When, p PIDs, l Labels) (*report, error) {
	v, err := s.labelled(ctx, w, p, l)
	if err != nil {
		return nil, err
	}
	return s.report(ctx, v)
}

// stamp returns a time as a value; nil: unknown.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// known returns a number, nil for 0 (unknown).
func known[N int | int64 | uint64](n N) any {
	if n == 0 {
		return nil
	}
	return n
}
