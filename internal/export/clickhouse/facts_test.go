package clickhouse_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// keeper is a fake cluster that keeps the rows, and answers which rows it has, except for calls.
type keeper struct {
	t    *testing.T
	mu   sync.Mutex
	rows map[string][]map[string]any // by table
	asks int                         // for keys
}

var (
	insertInto = regexp.MustCompile("^INSERT INTO `ingero`\\.(\\w+) ")
	askFor     = regexp.MustCompile("^SELECT (.*) FROM `ingero`\\.(requests|inference|labels) WHERE session = '(\\w+)'(?: AND (\\w+) IN \\((.*)\\))? FORMAT")
	inHex      = regexp.MustCompile(`^hex\((\w+)\)$`)
)

func (k *keeper) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if into := insertInto.FindStringSubmatch(q.URL.Query().Get("query")); into != nil {
		if zip, err := gzip.NewReader(q.Body); err != nil {
			k.t.Error(err)
		} else if b, err := io.ReadAll(zip); err != nil {
			k.t.Error(err)
		} else if rows, _ := clickhouse.ParseRows(k.t, into[1], b); days(rows) > 100 {
			says(500, "Code: 252, e.displayText() = DB::Exception: Too many partitions for single INSERT block (more than 100)")(w)
		} else {
			k.rows[into[1]] = append(k.rows[into[1]], rows...)
		}
		return
	}
	b, _ := io.ReadAll(q.Body)
	ask := askFor.FindStringSubmatch(string(b))
	switch {
	case strings.Contains(string(b), ".chains WHERE"):
		for id, row := range k.chains() {
			_, _ = fmt.Fprintln(w, strings.Join([]string{id, fmt.Sprint(row["version"]), fmt.Sprint(row["lost_ns"]), fmt.Sprint(row["from_ns"]), fmt.Sprint(row["to_ns"]),
				fmt.Sprint(row["pid"]), fmt.Sprint(row["tid"]), fmt.Sprint(row["severity"]), fmt.Sprint(row["rule"]), fmt.Sprint(row["op"])}, "\t"))
		}
	case strings.Contains(string(b), "max(calls), max(calls + done + arraySum(bucket_calls)) FROM `ingero`.rollups WHERE"):
		for _, row := range k.rollups() {
			_, _ = fmt.Fprintf(w, "%v\t%v\t%v\t%v\t%d\n", row["start"], row["pid"], row["op"], row["calls"], row["calls"].(uint64)+row["done"].(uint64)+bucketCalls(row))
		}
	case ask == nil:
	case ask[1] == "count()":
		_, _ = fmt.Fprintln(w, len(k.rows[ask[2]]))
	default:
		k.asks++
		_, _ = io.WriteString(w, k.answer(ask[2], strings.Split(ask[1], ", "), ask[4], strings.Split(ask[5], ", ")))
	}
}

// days returns how many days, which are partitions, rows are of.
func days(rows []map[string]any) int {
	days := map[uint64]bool{}
	for _, row := range rows {
		for _, name := range []string{"timestamp", "time_ns", "from_ns"} {
			if at, ok := row[name].(uint64); ok {
				days[at/uint64(24*time.Hour)] = true
			}
		}
	}
	return len(days)
}

// answer returns the fields of the rows whose time is one of some.
func (k *keeper) answer(table string, fields []string, at string, times []string) string {
	var out strings.Builder
	wanted := map[string]bool{}
	for _, t := range times {
		wanted[t] = true
	}
	for _, row := range k.rows[table] {
		if !wanted[fmt.Sprint(row[at])] {
			continue
		}
		for i, f := range fields {
			text := fmt.Sprint(row[f])
			if name := inHex.FindStringSubmatch(f); name != nil {
				text = fmt.Sprintf("%X", row[name[1]])
			}
			fmt.Fprint(&out, text, map[bool]string{true: "\n", false: "\t"}[i == len(fields)-1])
		}
	}
	return out.String()
}

// check checks the number of rows of a table, each of which is there once.
func (k *keeper) check(table string, want int) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	_, keys := clickhouse.ParseRows(k.t, table, nil)
	seen := map[string]bool{}
	for _, row := range k.rows[table] {
		key := ""
		for _, name := range keys {
			key += fmt.Sprint(row[name], " ")
		}
		if seen[key] {
			k.t.Errorf("%s has %s twice", table, key)
		}
		seen[key] = true
	}
	if len(k.rows[table]) != want {
		k.t.Errorf("%d rows of %s, want %d", len(k.rows[table]), table, want)
	}
}

func newKeeper(t *testing.T) (*keeper, string) {
	t.Helper()
	k := &keeper{t: t, rows: map[string][]map[string]any{}}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	return k, server.URL
}

// facts adds to a tick n requests to each of two processes, a read of a server, and a new value of a
// label.
func facts(n int) func(*tick.Batch, *tick.Tick) {
	return func(b *tick.Batch, x *tick.Tick) {
		for i := range n {
			for pid := uint32(7); pid < 9; pid++ {
				x.Requests = append(x.Requests, tick.Request{PID: pid, Port: 8000, Peer: netip.MustParseAddrPort("[fe80::1%eth0]:5"), Arrived: x.Time.Add(-time.Duration(n-i) * time.Microsecond).UnixNano(), Status: 200, Post: true})
			}
		}
		x.Inference = []tick.Inference{{Time: x.Time, PID: 7, URL: "http://localhost:8000/it's", Engine: "vLLM"}}
		b.Labels = []tick.Label{{Time: x.Time.UnixNano(), PID: 7, Key: "step", Value: fmt.Sprint(x.Time.UnixNano())}}
	}
}

// A copy sends the requests, reads and labels that the cluster lacks, also after a copy of a part.
func TestFacts(t *testing.T) {
	const ticks, each = 4, 3000
	w := newRecorder(t, "facts")
	w.facts = facts(each)
	for i := range ticks {
		w.record(100)
		w.now = w.now.Add(time.Duration(i+1) * 20 * time.Minute) // more than one part
		w.tick(false)
	}
	w.facts = nil
	r := w.whole()
	k, address := newKeeper(t)
	cl := open(t, address)
	part := query.Filter{Session: "facts", PIDs: []uint32{8}, To: w.now.Add(-time.Minute)}
	res, err := clickhouse.Copy(t.Context(), cl, r, part, nil)
	if err != nil || res.Requests != (ticks-1)*each || res.Reads != 0 || res.Labels != 0 || k.asks != 0 {
		t.Fatalf("a part: %+v, %d asks, %v", res, k.asks, err)
	}
	for i, want := range []clickhouse.Result{{Requests: (ticks + 1) * each, Reads: ticks, Labels: ticks}, {}} {
		res, err := clickhouse.Copy(t.Context(), cl, r, query.Filter{Session: "facts"}, nil)
		if err != nil || res.Requests != want.Requests || res.Reads != want.Reads || res.Labels != want.Labels {
			t.Errorf("copy %d: %+v, %v", i, res, err)
		}
		k.check("requests", 2*ticks*each)
		k.check("inference", ticks)
		k.check("labels", ticks)
	}
}

// While a trace runs, each request and each read is sent once, and a label when it begins and when it
// ends.
func TestFollowFacts(t *testing.T) {
	testkit.LeakCheck(t)
	k, address := newKeeper(t)
	cl, err := clickhouse.Open(address, hurried)
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder(t, "live")
	x := clickhouse.Follow(cl, clickhouse.FollowOptions{Path: w.path, Every: time.Millisecond, Grace: time.Minute,
		Mine: func(s *query.Session) bool { return s.ID == "live" }})
	w.facts = facts(10)
	const ticks = 8
	for i := range ticks {
		w.record(10)
		w.now = w.now.Add(time.Duration(i+1) * 15 * time.Second)
		w.tick(false)
		if i%2 == 0 {
			testkit.Eventually(t, "the tick's requests", func() bool { return x.State().Requests >= uint64(20*(i+1)) })
		}
	}
	w.facts = nil
	w.now = w.now.Add(time.Second)
	_ = w.whole()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if s := x.State(); !s.Complete || s.Problem != "" {
		t.Errorf("at the end: %+v", s)
	}
	k.check("requests", 20*ticks)
	k.check("inference", ticks)
	ended := map[any]bool{}
	for _, row := range k.rows["labels"] {
		if row["to_ns"] != uint64(0) {
			ended[row["from_ns"]] = true
		}
	}
	k.check("labels", len(k.rows["labels"]))
	if len(ended) != ticks-1 {
		t.Errorf("%d labels have ended, want all but the last of %d", len(ended), ticks)
	}
	if k.asks != 0 {
		t.Errorf("the cluster was asked %d times", k.asks)
	}
}
