package k8s

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

const (
	token = "eyJhbGciOiJSUzI1NiJ9.secret"
	id1   = "3f2b8c1d9e7a6f5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b"
	uid1  = "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b"
	uid2  = "8f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b"
	hash  = "0123456789abcdef0123456789abcdef"
)

// trainer is a pod as a server sends it.
const trainer = `{"metadata":{"name":"train-0","namespace":"ml","uid":"` + uid1 + `","resourceVersion":"101",
	"labels":{"app":"train"},"annotations":{"kubernetes.io/config.seen":"2026-11-21T10:00:00Z"},"ownerReferences":[{"kind":"Job"}]},
	"spec":{"nodeName":"gpu-7","containers":[
		{"name":"trainer","image":"ml/train:3","resources":{"limits":{"nvidia.com/gpu":"2","memory":"64Gi"},"requests":{"nvidia.com/gpu":"2","cpu":"8"}}},
		{"name":"logger","image":"log:1","resources":{}}]},
	"status":{"phase":"Running","qosClass":"Burstable","containerStatuses":[
		{"name":"trainer","ready":true,"containerID":"containerd://` + id1 + `","state":{"running":{}}},
		{"name":"logger","ready":false,"state":{"waiting":{"reason":"ContainerCreating"}}}]}}`

// plain is a static pod that requests no GPU.
const plain = `{"metadata":{"name":"etcd","namespace":"kube-system","uid":"` + uid2 + `","resourceVersion":"7","annotations":{"kubernetes.io/config.hash":"` + hash + `"}},
	"spec":{"containers":[{"name":"etcd","resources":{"requests":{"cpu":"100m"}}}]},"status":{"phase":"Running","qosClass":"Burstable"}}`

// server is a kubelet or an API server, with answers by path.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request)
	asked   []string
	refused int // requests without the token
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer := s.answer
	s.asked = append(s.asked, r.URL.String())
	if r.Header.Get("Authorization") != "Bearer "+token {
		s.refused++
		s.mu.Unlock()
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer(w, r)
}

func (s *server) set(answer func(w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// requests returns the requests so far.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func listOf(version, more string, pods ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`, version, more, strings.Join(pods, ","))
}

// start starts a server, and returns the options to reach it.
func start(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (*server, Options) {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	o := Options{TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt"), Node: "gpu-7", Poll: 50 * time.Millisecond}
	write(t, o.TokenFile, token+"\n")
	write(t, o.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s, o
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// table runs a table until the test ends. It returns the table and its reported problems.
func table(t *testing.T, o Options) (*Table, func() []string) {
	t.Helper()
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var problems []string
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		x.Run(ctx, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, err.Error())
		})
	}()
	t.Cleanup(func() { <-done })
	return x, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), problems...)
	}
}

func has(x *Table, uid string) func() bool {
	return func() bool { return x.Complete(&tick.Where{PodUID: uid}) }
}

func TestKubelet(t *testing.T) {
	s, o := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", trainer, plain)) })
	o.Kubelet = s.URL
	x, problems := table(t, o)
	testkit.Eventually(t, "the pods", has(x, uid1))
	for _, tt := range []struct {
		name      string
		have, got tick.Where
		ok        bool
	}{
		{"by its container", tick.Where{PodUID: uid1, Container: id1, QoS: "guaranteed"},
			tick.Where{Pod: "train-0", Namespace: "ml", PodUID: uid1, QoS: "burstable", Container: id1, ContainerName: "trainer", Runtime: "containerd"}, true},
		{"the container alone", tick.Where{Container: id1, Runtime: "docker"},
			tick.Where{Pod: "train-0", Namespace: "ml", PodUID: uid1, QoS: "burstable", Container: id1, ContainerName: "trainer", Runtime: "docker"}, true},
		{"a container that it does not know", tick.Where{PodUID: uid1, Container: "x"},
			tick.Where{Pod: "train-0", Namespace: "ml", PodUID: uid1, QoS: "burstable", Container: "x"}, false},
		{"a static pod", tick.Where{PodUID: hash}, tick.Where{Pod: "etcd", Namespace: "kube-system", PodUID: uid2, QoS: "burstable"}, true},
		{"another pod", tick.Where{PodUID: "x"}, tick.Where{PodUID: "x"}, false},
		{"no pod", tick.Where{}, tick.Where{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.have
			if ok := x.Complete(&w); ok != tt.ok || w != tt.got {
				t.Errorf("got %+v, %v; want %+v, %v", w, ok, tt.got, tt.ok)
			}
		})
	}
	// A pod that requests GPUs is listed even if it has not called CUDA. The other is not.
	want := []tick.Pod{{UID: uid1, Name: "train-0", Namespace: "ml", Phase: "Running", GPUs: 2}}
	if diff := cmp.Diff(want, x.List()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	s.set(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", plain)) })
	testkit.Eventually(t, "the pod's end", func() bool { return !has(x, uid1)() && has(x, hash)() })
	if got := problems(); len(got) > 0 {
		t.Errorf("problems %q", got)
	}
	for _, r := range s.requests() {
		if r != "/pods" {
			t.Errorf("asked for %s", r)
		}
	}
}

// A lookup of an unknown pod triggers a poll early, a few times.
func TestKubeletIsAskedForUnknown(t *testing.T) {
	s, o := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", plain)) })
	o.Kubelet, o.Poll = s.URL, time.Hour
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.queryKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := func(uid string) (n int) {
		for range 2 * maxKicks {
			for range 3 { // processes of the pod
				if has(x, uid)() {
					t.Fatal("it is known too soon")
				}
			}
			select {
			case <-x.kick:
				n++
			default:
			}
		}
		return n
	}
	for _, uid := range []string{uid1, uid1 + "2"} {
		if n := requests(uid); n != maxKicks {
			t.Errorf("%d polls are requested, want %d", n, maxKicks)
		}
	}
	for i := range maxPods + 5 {
		has(x, fmt.Sprint(i))()
		<-x.kick
	}
	if len(x.kicks) > maxPods {
		t.Errorf("%d unknown pods are remembered, want at most %d", len(x.kicks), maxPods)
	}
}

// apiServer is an API server with two pages of pods. It sends the changes to its watchers, and ends
// a watch for each value of gone.
func apiServer(changes chan string, gone chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("fieldSelector") != "spec.nodeName=gpu-7" || r.URL.Path != "/api/v1/pods":
			http.Error(w, "not so", http.StatusBadRequest)
		case q.Get("watch") != "":
			w.(http.Flusher).Flush()
			for {
				select {
				case line := <-changes:
					fmt.Fprintln(w, line)
					w.(http.Flusher).Flush()
				case <-gone:
					return
				case <-r.Context().Done():
					return
				}
			}
		case q.Get("continue") == "":
			fmt.Fprint(w, listOf("90", "next", plain))
		default:
			fmt.Fprint(w, listOf("90", "", strings.Replace(trainer, `"Running"`, `"Pending"`, 1)))
		}
	}
}

func TestAPI(t *testing.T) {
	changes := make(chan string)
	gone := make(chan struct{})
	s, o := start(t, apiServer(changes, gone))
	defer close(gone)
	o.API = s.URL
	x, problems := table(t, o)
	phase := func(want string) func() bool {
		return func() bool { l := x.List(); return len(l) == 1 && l[0].Phase == want }
	}
	testkit.Eventually(t, "the pods of both pages", func() bool { return phase("Pending")() && has(x, hash)() })
	changes <- `{"type":"MODIFIED","object":` + trainer + `}`
	testkit.Eventually(t, "a change", phase("Running"))
	changes <- `{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"200"}}}`
	gone <- struct{}{} // the watch ends, and continues after the bookmark
	testkit.Eventually(t, "the watch to go on", func() bool {
		all := s.requests()
		return strings.Contains(all[len(all)-1], "resourceVersion=200")
	})
	lists := len(strings.Split(strings.Join(s.requests(), "\n"), "limit=500"))
	changes <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`
	testkit.Eventually(t, "another list", func() bool {
		return len(strings.Split(strings.Join(s.requests(), "\n"), "limit=500")) > lists
	})
	testkit.Eventually(t, "what it says", phase("Pending"))
	changes <- `{"type":"DELETED","object":` + trainer + `}`
	testkit.Eventually(t, "the pod's end", func() bool { return len(x.List()) == 0 })
	changes <- `{"type":"ADDED","object":` + trainer + `}`
	testkit.Eventually(t, "a new pod", phase("Running"))
	changes <- `{"type":"MODIFIED","object":` + strings.Replace(trainer, `"Running"`, `"Succeeded"`, 1) + `}`
	testkit.Eventually(t, "its success", func() bool { return len(x.List()) == 0 })
	if got := problems(); len(got) > 0 {
		t.Errorf("problems %q", got)
	}
}

// A failure is reported once, drops no pod, and recovers.
func TestProblems(t *testing.T) {
	good := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", trainer)) }
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) }, "it needs get on nodes/proxy"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusInternalServerError) }, "500"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "is not a list of pods"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", trainer)[:300]) }, "is not a list of pods"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org/pods", http.StatusFound)
		}, "302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, o := start(t, good)
			o.Kubelet = s.URL
			x, problems := table(t, o)
			testkit.Eventually(t, "the pods", has(x, uid1))
			s.set(tt.answer)
			testkit.Eventually(t, "the problem", func() bool { return len(problems()) > 0 })
			n := len(s.requests())
			testkit.Eventually(t, "more attempts", func() bool { return len(s.requests()) > n+1 })
			if got := problems(); len(got) != 1 || !strings.Contains(got[0], tt.want) || strings.Contains(got[0], "secret") {
				t.Errorf("problems %q, want one with %q", got, tt.want)
			}
			if !has(x, uid1)() {
				t.Error("what was known is forgotten")
			}
			s.set(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", plain)) })
			testkit.Eventually(t, "the end of it", has(x, hash))
		})
	}
}

// A renewed token is used from then on.
func TestTokenIsReadAnew(t *testing.T) {
	s, o := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", trainer)) })
	o.Kubelet = s.URL
	write(t, o.TokenFile, "an-old-one")
	x, problems := table(t, o)
	testkit.Eventually(t, "the refusal", func() bool { return len(problems()) > 0 })
	if got := problems()[0]; !strings.Contains(got, "401") || strings.Contains(got, "an-old-one") {
		t.Errorf("problem %q", got)
	}
	write(t, o.TokenFile, token)
	testkit.Eventually(t, "the pods", has(x, uid1))
}

// The token is not sent over plain HTTP, and the certificate must be valid.
func TestTokenIsKept(t *testing.T) {
	var sent string
	plainServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		fmt.Fprint(w, listOf("", "", trainer))
	}))
	defer plainServer.Close()
	s, o := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, listOf("", "", trainer)) })
	ask := func(o Options) error {
		x, err := New(o)
		if err != nil {
			return err
		}
		defer x.client.http.CloseIdleConnections()
		return x.queryKubelet(t.Context())
	}
	p := o
	p.Kubelet = plainServer.URL
	if err := ask(p); err != nil || sent != "" {
		t.Errorf("plain HTTP: sent %q, %v", sent, err)
	}
	p = o
	p.Kubelet, p.CAFile = s.URL, ""
	if err := ask(p); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests were made of a server that could be any", n)
	}
	p.Insecure = true
	if err := ask(p); err != nil {
		t.Errorf("insecure: %v", err)
	}
}
