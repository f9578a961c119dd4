package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingero/internal/backoff"
)

// Options configure the access to a cluster. Zero fields get Defaults.
type Options struct {
	Database string
	Client   *http.Client // nil: a new one
	Log      *slog.Logger // nil: none
	Backoff  time.Duration
	Most     time.Duration // maximum time between two tries
	Timeout  time.Duration // of one request
	GiveUp   time.Duration // time after which an unanswered request fails; below 0: never
}

// Defaults replace the zero fields of [Options].
var Defaults = Options{Database: "ingero", Backoff: 500 * time.Millisecond, Most: time.Minute, Timeout: time.Minute, GiveUp: 2 * time.Minute}

// Cluster is one or more servers of a cluster, any of which accepts rows for all. Only Problem is
// safe for concurrent use.
type Cluster struct {
	o       Options
	servers []*url.URL
	now     int // index of the server that answered last

	mu      sync.Mutex
	problem string
}

// Refused is a permanent error: a table is missing, or the user may not write to it.
type Refused struct {
	Code int // ClickHouse's; 0: unknown
	Text string
}

// Error returns the server's message.
func (r *Refused) Error() string { return "ClickHouse rejected the request: " + r.Text }

// maxAnswer bounds an answer that is read. Expected ones are shorter.
const maxAnswer = 64 << 20

// Open parses addresses, http://user:password@host:8123 separated by commas. It opens no
// connection, and its errors do not repeat the addresses.
func Open(addresses string, o Options) (*Cluster, error) {
	c := &Cluster{o: o}
	for text := range strings.SplitSeq(addresses, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("write the address of ClickHouse as http://host:8123, several separated by commas")
		}
		if name := strings.Trim(u.Path, "/"); name != "" {
			c.o.Database = name
		}
		c.servers = append(c.servers, u)
	}
	for _, n := range []struct{ to, from *time.Duration }{{&c.o.Backoff, &Defaults.Backoff}, {&c.o.Most, &Defaults.Most},
		{&c.o.Timeout, &Defaults.Timeout}, {&c.o.GiveUp, &Defaults.GiveUp}} {
		if *n.to == 0 {
			*n.to = *n.from
		}
	}
	if c.o.Database == "" {
		c.o.Database = Defaults.Database
	}
	if c.o.Log == nil {
		c.o.Log = slog.New(slog.DiscardHandler)
	}
	if c.o.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ForceAttemptHTTP2, t.TLSClientConfig = false, nil // a request that fails closes its connection; HTTP/2 would keep it
		c.o.Client = &http.Client{Transport: t}
	}
	client := *c.o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.o.Client = &client
	return c, nil
}

// String returns the servers' names.
func (c *Cluster) String() string {
	var out []string
	for _, u := range c.servers {
		out = append(out, u.Scheme+"://"+u.Host)
	}
	return strings.Join(out, ", ")
}

// Problem returns why the last try failed, "" if it succeeded.
func (c *Cluster) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// Close closes idle connections.
func (c *Cluster) Close() { c.o.Client.CloseIdleConnections() }

func (c *Cluster) note(problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if problem != "" && c.problem != problem {
		c.o.Log.Warn("clickhouse", "problem", problem)
	}
	c.problem = problem
}

// insert sends a block of rows, in compressed RowBinary, until a server has it.
func (c *Cluster) insert(ctx context.Context, t *table, body []byte) error {
	text := fmt.Sprintf("INSERT INTO %s.%s (%s) FORMAT RowBinary", quoteName(c.o.Database), t.name, t.names())
	answer, err := c.do(ctx, text, body)
	if err == nil && len(answer) > 0 {
		err = fmt.Errorf("ClickHouse accepted rows of %s but answered %.100q", t.name, answer)
	}
	return err
}

// query returns a statement's rows, each as its fields.
func (c *Cluster) query(ctx context.Context, fields int, text string, args ...any) ([][]string, error) {
	answer, err := c.do(ctx, fmt.Sprintf(text, args...)+" FORMAT TabSeparated", nil)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for line := range strings.Lines(string(answer)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != fields || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("ClickHouse answered %.100q", line)
		}
		out = append(out, row)
	}
	return out, nil
}

// do sends a request to one server after the other, with growing backoff, until one accepts it.
// Each try sends the same bytes.
func (c *Cluster) do(ctx context.Context, text string, body []byte) ([]byte, error) {
	began, delays := time.Now(), backoff.Delays{First: c.o.Backoff, Most: c.o.Most}
	for tries := 1; ; tries++ {
		answer, err := c.request(ctx, c.servers[c.now], text, body)
		var no *Refused
		switch {
		case err == nil:
			c.note("")
			return answer, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &no):
			c.note(err.Error())
			return nil, err
		}
		c.note(c.servers[c.now].Host + ": " + err.Error())
		c.now = (c.now + 1) % len(c.servers)
		if tries%len(c.servers) != 0 { // another may accept it at once
			continue
		}
		if c.o.GiveUp > 0 && time.Since(began) > c.o.GiveUp {
			return nil, fmt.Errorf("no server accepted the request: %s", c.Problem())
		}
		if err := backoff.Sleep(ctx, delays.Next()); err != nil {
			return nil, err
		}
	}
}

// request tries once.
func (c *Cluster) request(ctx context.Context, u *url.URL, text string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	to := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	q := url.Values{"insert_distributed_sync": {"1"}} // the answer confirms the shard
	sent := body
	if body == nil {
		sent = []byte(text)
	} else {
		q.Set("query", text)
	}
	to.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Encoding", "gzip")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		r.Header.Set("X-ClickHouse-User", u.User.Username())
		r.Header.Set("X-ClickHouse-Key", password)
	}
	answer, err := c.o.Client.Do(r)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // read-only
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxAnswer:
		return nil, errors.New("the answer is too large")
	case answer.StatusCode != http.StatusOK:
		return nil, failure(answer.StatusCode, string(b))
	}
	return b, nil
}

var exception = regexp.MustCompile(`^Code: (\d+)`)

// final are ClickHouse's codes of permanent errors: a wrong table, column, user, password, type or
// statement.
var final = []int{10, 16, 33, 36, 43, 47, 53, 60, 62, 81, 115, 164, 192, 193, 194, 291, 497, 516}

// failure converts an error response to an error.
func failure(status int, text string) error {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.ToValidUTF8(line[:min(len(line), 300)], "?")
	m := exception.FindStringSubmatch(text)
	if m == nil {
		if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
			return fmt.Errorf("the server answered %d: %s", status, line)
		}
		return &Refused{Text: fmt.Sprintf("%d: %s", status, line)}
	}
	code, err := strconv.Atoi(m[1])
	if err == nil && slices.Contains(final, code) {
		return &Refused{Code: code, Text: line}
	}
	return errors.New(line)
}

// quote returns an SQL string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func quoteName(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
