package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/export/notify"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

var now = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// step is one event of an episode.
func step(episode string, kind tick.EpisodeKind, why tick.EpisodeReason, severity tick.Severity) tick.Episode {
	chain, _, _ := strings.Cut(episode, "/")
	return tick.Episode{ID: episode, Kind: kind, Why: why, Severity: severity, Chain: tick.Chain{ID: chain}}
}

func body(e *tick.Episode, _ *tick.Tick) ([]byte, error) {
	return json.Marshal(map[string]string{"episode": e.ID, "kind": e.Kind.String(), "severity": e.Severity.String()})
}

// start makes a sink with short times.
func start(t *testing.T, o notify.Options) *notify.Sink {
	t.Helper()
	if o.Body == nil {
		o.Body = body
	}
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	if o.Most == 0 {
		o.Most = 5 * time.Millisecond
	}
	s, err := notify.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// tell gives a sink a tick.
func tell(t *testing.T, s *notify.Sink, at time.Time, all ...tick.Episode) {
	t.Helper()
	if err := s.Tick(&tick.Tick{Started: now, Time: at, Seq: uint64(at.Sub(now) / time.Second), Episodes: all}); err != nil {
		t.Fatal(err)
	}
}

// receiver is a fake webhook that keeps what it accepted.
type receiver struct {
	mu     sync.Mutex
	said   []string // "kind episode severity"
	ids    []string // of all tries
	answer func(try int, w http.ResponseWriter)
	tries  int
	bad    []string
	secret []byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	id, stamp := q.Header.Get("Webhook-Id"), q.Header.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, r.secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, b)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); len(r.secret) > 0 && q.Header.Get("Webhook-Signature") != want {
		r.bad = append(r.bad, "signature")
	}
	if q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
		r.bad = append(r.bad, q.Method+" "+q.Header.Get("Content-Type"))
	}
	r.tries++
	r.ids = append(r.ids, id)
	code := &codeWriter{ResponseWriter: w, code: 200}
	if r.answer != nil {
		r.answer(r.tries, code)
	}
	if code.code/100 == 2 {
		var m map[string]string
		_ = json.Unmarshal(b, &m)
		r.said = append(r.said, m["kind"]+" "+m["episode"]+" "+m["severity"])
	}
}

type codeWriter struct {
	http.ResponseWriter
	code int
}

func (c *codeWriter) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

func serve(t *testing.T, r http.Handler) string {
	t.Helper()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

// A chain that soon recurs and then lasts is reported after a while.
func TestRecursAndLasts(t *testing.T) {
	testkit.LeakCheck(t)
	r := &receiver{}
	s := start(t, notify.Options{URL: serve(t, r)})
	for _, x := range []struct {
		at time.Duration
		tick.Episode
	}{
		{0, step("a/1", tick.EpisodeBegin, "", tick.High)},
		{60 * time.Second, step("a/1", tick.EpisodeEnd, tick.ReasonOver, tick.High)},
		{300 * time.Second, step("a/2", tick.EpisodeBegin, "", tick.High)},
		{400 * time.Second, step("a/2", tick.EpisodeUpdate, tick.ReasonLost, tick.High)},
		{700 * time.Second, step("a/2", tick.EpisodeUpdate, tick.ReasonLost, tick.High)},
		{2 * time.Hour, step("a/2", tick.EpisodeEnd, tick.ReasonOver, tick.High)},
	} {
		tell(t, s, now.Add(x.at), x.Episode)
		testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Waiting == 0 })
	}
	want := []string{"chain_begin a/1 HIGH", "chain_end a/1 HIGH", "chain_update a/2 HIGH", "chain_end a/2 HIGH"}
	if d := cmp.Diff(want, r.got()); d != "" {
		t.Error("-want +got:\n", d)
	}
}

// A begin, a higher severity, another culprit and an end are each reported once. A cause that soon
// recurs is not reported again unless it is more severe; a hidden one is never reported.
func TestTold(t *testing.T) {
	testkit.LeakCheck(t)
	r := &receiver{secret: []byte("whose")}
	s := start(t, notify.Options{URL: serve(t, r) + "/T0/secretpath", Secret: "whsec_" + base64.StdEncoding.EncodeToString(r.secret)})
	hidden := step("z/1", tick.EpisodeBegin, "", tick.High)
	hidden.Hidden = true
	for i, steps := range [][]tick.Episode{
		{step("a/1", tick.EpisodeBegin, "", tick.Low), hidden},
		{step("a/1", tick.EpisodeUpdate, tick.ReasonLost, tick.Low)},
		{step("a/1", tick.EpisodeUpdate, tick.ReasonSeverity, tick.Medium)},
		{step("a/1", tick.EpisodeUpdate, tick.ReasonCulprit, tick.Medium)},
		{step("a/1", tick.EpisodeEnd, tick.ReasonOver, tick.Medium)},
		{step("a/2", tick.EpisodeBegin, "", tick.Medium), step("b/1", tick.EpisodeBegin, "", tick.Low)},
		{step("a/2", tick.EpisodeUpdate, tick.ReasonCulprit, tick.Medium)},
		{step("a/2", tick.EpisodeEnd, tick.ReasonOver, tick.Medium)},
		{step("a/3", tick.EpisodeBegin, "", tick.Medium)},
		{step("a/3", tick.EpisodeUpdate, tick.ReasonSeverity, tick.High)},
		{step("a/3", tick.EpisodeRevised, "", tick.High)},
	} {
		tell(t, s, now.Add(time.Duration(i)*time.Second), steps...)
		// One at a time: queued updates replace each other.
		testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Waiting == 0 })
	}
	tell(t, s, now.Add(time.Hour), step("a/4", tick.EpisodeBegin, "", tick.Low))
	testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Sent == 8 })
	want := []string{"chain_begin a/1 LOW", "chain_update a/1 MEDIUM", "chain_update a/1 MEDIUM", "chain_end a/1 MEDIUM",
		"chain_begin b/1 LOW", "chain_update a/3 HIGH", "chain_revised a/3 HIGH", "chain_begin a/4 LOW"}
	if d := cmp.Diff(want, r.got()); d != "" || len(r.bad) > 0 {
		t.Errorf("wrong: %v; -want +got:\n%s", r.bad, d)
	}
	if x := s.State(); x.Repeats != 2 || len(x.Lost) > 0 || strings.Contains(x.To, "secretpath") {
		t.Errorf("%+v", x)
	}
}

// Temporary failures are retried with the same id; refused messages are not.
func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(try int, w http.ResponseWriter)
		tries  int
		lost   map[string]uint64
	}{
		"overloaded": {func(try int, w http.ResponseWriter) {
			if try < 4 {
				w.WriteHeader([]int{500, 503, 408}[try-1])
			}
		}, 4, map[string]uint64{}},
		"too many": {func(try int, w http.ResponseWriter) {
			if try == 1 {
				w.Header().Set("Retry-After", "99999999999")
				w.WriteHeader(429)
			}
		}, 2, map[string]uint64{}},
		"refused":    {func(_ int, w http.ResponseWriter) { w.WriteHeader(400) }, 1, map[string]uint64{"refused": 1}},
		"redirected": {func(_ int, w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(307) }, 1, map[string]uint64{"refused": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{answer: c.answer}
			s := start(t, notify.Options{URL: serve(t, r)})
			tell(t, s, now, step("a/1", tick.EpisodeBegin, "", tick.Low))
			testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Waiting == 0 })
			x := s.State()
			if d := cmp.Diff(c.lost, x.Lost); d != "" || r.tries != c.tries || len(slices.Compact(r.ids)) != 1 || x.Sent != uint64(1-len(c.lost)) {
				t.Errorf("%d tries as %v, %+v, lost: %s", r.tries, r.ids, x, d)
			}
		})
	}
}

// A receiver that is away, hangs, or never ends its answer costs a bounded queue and no waiting;
// dropped and remaining messages are counted.
func TestBadReceivers(t *testing.T) {
	testkit.LeakCheck(t)
	hang := make(chan struct{})
	defer close(hang)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://user:pass@" + l.Addr().String() + "/hook?token=1"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"away": away,
		"hangs": serve(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			select {
			case <-hang:
			case <-q.Context().Done():
			}
		})),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, notify.Options{URL: url, Queue: 8, Grace: 20 * time.Millisecond, Timeout: 20 * time.Millisecond})
			for i := range 100 {
				tell(t, s, now.Add(time.Duration(i)*time.Second), step(fmt.Sprintf("c%d/1", i), tick.EpisodeBegin, "", tick.Low))
			}
			testkit.Eventually(t, "a problem to be reported", func() bool { return s.State().Problem != "" })
			x := s.State()
			if x.Waiting != 8 || x.Lost["queue-full"] != 92 {
				t.Errorf("%+v", x)
			}
			for _, secret := range []string{"pass", "token", "hook"} {
				if strings.Contains(x.Problem+x.To+s.String(), secret) {
					t.Errorf("%q is reported: %+v", secret, x)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if x := s.State(); x.Lost["trace-ended"] != 8 || x.Waiting != 0 || x.Sent != 0 {
				t.Errorf("after the end: %+v", x)
			}
		})
	}
}

// An endless answer is truncated, and the message counts as sent.
func TestEndlessAnswer(t *testing.T) {
	testkit.LeakCheck(t)
	s := start(t, notify.Options{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))})
	tell(t, s, now, step("a/1", tick.EpisodeBegin, "", tick.Low))
	testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Sent == 1 })
}

// At the end, a message that waits for a retry is tried once more at once, and then the others.
func TestLastTry(t *testing.T) {
	testkit.LeakCheck(t)
	r := &receiver{answer: func(try int, w http.ResponseWriter) {
		if try == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		}
	}}
	s := start(t, notify.Options{URL: serve(t, r), Backoff: time.Hour, Most: time.Hour, Grace: 10 * time.Second})
	tell(t, s, now, step("a/1", tick.EpisodeBegin, "", tick.Low))
	testkit.Eventually(t, "the first try", func() bool { return s.State().Problem != "" })
	tell(t, s, now.Add(time.Second), step("a/1", tick.EpisodeEnd, tick.ReasonFinal, tick.Low))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"chain_begin a/1 LOW", "chain_end a/1 LOW"}, r.got()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if x := s.State(); x.Sent != 2 || len(x.Lost) > 0 || x.Problem != "" {
		t.Errorf("%+v", x)
	}
}

// Queued updates are replaced by later ones; a begin is not.
func TestUpdatesReplaceEachOther(t *testing.T) {
	testkit.LeakCheck(t)
	var open atomic.Bool
	r := &receiver{answer: func(_ int, w http.ResponseWriter) {
		if !open.Load() {
			w.WriteHeader(503)
		}
	}}
	s := start(t, notify.Options{URL: serve(t, r)})
	tell(t, s, now, step("x/1", tick.EpisodeBegin, "", tick.Low))
	tell(t, s, now.Add(time.Second), step("a/1", tick.EpisodeBegin, "", tick.Low))
	tell(t, s, now.Add(2*time.Second), step("a/1", tick.EpisodeUpdate, tick.ReasonSeverity, tick.Medium))
	tell(t, s, now.Add(3*time.Second), step("a/1", tick.EpisodeUpdate, tick.ReasonSeverity, tick.High))
	open.Store(true)
	testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Sent == 3 })
	if d := cmp.Diff([]string{"chain_begin x/1 LOW", "chain_begin a/1 LOW", "chain_update a/1 HIGH"}, r.got()); d != "" {
		t.Error(d)
	}
}

// No connection is opened before there is a message, and the error about an unusable address does
// not repeat it.
func TestNothingToTell(t *testing.T) {
	testkit.LeakCheck(t)
	r := &receiver{}
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(r)
	server.Config.ConnState = func(net.Conn, http.ConnState) { opened.Add(1) }
	server.Start()
	defer server.Close()
	s := start(t, notify.Options{URL: server.URL})
	for i := range 5 {
		tell(t, s, now.Add(time.Duration(i)*time.Second))
	}
	if err := s.Close(); err != nil || opened.Load() != 0 {
		t.Errorf("%v, %d changes of connections", err, opened.Load())
	}
	for _, url := range []string{"ftp://hidden/", "hidden", "https://", "http://hidden:port:%zz"} {
		if _, err := notify.New(notify.Options{URL: url}); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := notify.New(notify.Options{URL: "https://x", Secret: "whsec_%%"}); err == nil {
		t.Error("a secret that is no base64 is taken")
	}
}

// Messages have times by the wall clock, and a step of it does not make a cause new.
func TestClockStep(t *testing.T) {
	testkit.LeakCheck(t)
	r := &receiver{}
	var from, at []time.Time
	s := start(t, notify.Options{URL: serve(t, r), Body: func(e *tick.Episode, x *tick.Tick) ([]byte, error) {
		from, at = append(from, e.From), append(at, x.Time)
		return body(e, x)
	}})
	for i, ahead := range []time.Duration{0, time.Hour} {
		e := step(fmt.Sprintf("a/%d", i), tick.EpisodeBegin, "", tick.Low)
		e.From = now
		other := step(fmt.Sprintf("b%d/1", i), tick.EpisodeBegin, "", tick.Low)
		other.From = now
		if err := s.Tick(&tick.Tick{Started: now, Time: now.Add(time.Minute), Seq: uint64(i), Ahead: ahead, Episodes: []tick.Episode{e, other}}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the messages to be sent", func() bool { return s.State().Sent == 3 })
	if d := cmp.Diff([]time.Time{now, now, now.Add(time.Hour)}, from); d != "" {
		t.Error("from: ", d)
	}
	if d := cmp.Diff([]time.Time{now.Add(time.Minute), now.Add(time.Minute), now.Add(61 * time.Minute)}, at); d != "" {
		t.Error("at: ", d)
	}
	if x := s.State(); x.Repeats != 1 {
		t.Errorf("%+v", x)
	}
}
