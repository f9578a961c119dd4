package cli

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ingero/internal/config"
	"ingero/internal/redact"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// podAnswer is an answer of Kubernetes; %s is the UID of the pod.
const podAnswer = `{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{
	"metadata":{"name":"train-0","namespace":"ml","uid":"%s"},
	"spec":{"containers":[{"name":"trainer","resources":{"limits":{"nvidia.com/gpu":"2"}}}]},
	"status":{"phase":"Pending","qosClass":"Guaranteed"}}]}`

// A trace of a pod asks the API for the pods of this node, traces only the processes in the pod,
// and records its name.
func TestTraceOfAPod(t *testing.T) {
	b := newBench(t)
	uid := fmt.Sprintf("7f0c4a52-1b3d-4e5f-8a9b-%012x", rand.Uint64N(1<<48)) // unique to this run
	var asked atomic.Value
	asked.Store("")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		asked.Store(r.URL.Path + "?" + r.URL.Query().Get("fieldSelector"))
		fmt.Fprintf(w, podAnswer, uid)
	}))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	_, in := testkit.Cgroup(t, "kubepods", "pod"+uid, strings.Repeat("3f2b8c1d", 8))
	there, elsewhere := b.train("--seconds", "60"), b.train("--seconds", "60")
	in(there.PID())
	c := b.ingero("trace", "--json", "--node", "gpu-7", "--kube-api", s.URL, "--pod", "train-0", "--namespace", "ml")
	there.Send("go")
	elsewhere.Send("go")
	if got := b.tracing(1).Processes[0].PID; got != uint32(there.PID()) {
		t.Errorf("process %d is traced, want %d", got, there.PID())
	}
	testkit.Eventually(t, "a tick with the pod", func() bool { return strings.Contains(c.Stdout(), `"pods":[{"uid":`) })
	c.Signal(syscall.SIGINT)
	stdout, stderr, code := finish(t, c)
	if code != 0 || asked.Load() != "/api/v1/pods?spec.nodeName=gpu-7" {
		t.Errorf("code %d, asked for %q:\n%s", code, asked.Load(), stderr)
	}
	if !strings.Contains(stdout, `"pod":"train-0"`) {
		t.Error("the lines do not tell of the pod")
	}
	for sql, want := range map[string]string{
		"SELECT group_concat(DISTINCT pid) FROM events":                             pid(there),
		"SELECT pid, pod, namespace, qos FROM processes":                            pid(there) + ",train-0,ml,guaranteed",
		"SELECT name, namespace, phase, gpus FROM pods":                             "train-0,ml,Pending,2",
		"SELECT node, target FROM sessions":                                         `gpu-7,"pod train-0, namespace ml"`,
		"SELECT DISTINCT pod FROM events WHERE op = 'cudaLaunchKernel'":             "train-0",
		"SELECT count(*) FROM processes WHERE cmdline LIKE '%/train --seconds 60%'": "1",
	} {
		if out, _, _ := b.output("query", "--csv", sql); !strings.HasSuffix(strings.TrimSpace(out), "\n"+want) {
			t.Errorf("%s: got %q, want %q", sql, out, want)
		}
	}
}

// Without settings, the files that Kubernetes mounts into a pod are used.
func TestOrMounted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, name, want string }{
		{"", "token", filepath.Join(dir, "token")}, {"", "ca.crt", ""}, {"/x", "token", "/x"}, {"/x", "ca.crt", "/x"},
	} {
		if got := orFileIn(tt.path, dir, tt.name); got != tt.want {
			t.Errorf("%q, %s: got %q, want %q", tt.path, tt.name, got, tt.want)
		}
	}
}

func TestShown(t *testing.T) {
	args := []string{"ingero", "run", "--", "train", "--token", "x"}
	for mode, want := range map[redact.Mode]string{
		redact.Off: "ingero", redact.Safe: "ingero run -- train --token ***", "": "ingero run -- train --token ***", redact.Full: "ingero run -- train --token x",
	} {
		if got := shown(mode, args); got != want {
			t.Errorf("%s: got %q, want %q", mode, got, want)
		}
	}
}

// The Kubernetes settings become options of a live trace.
func TestLiveOptions(t *testing.T) {
	e := &Env{Stderr: os.Stderr}
	c := &config.Config{Node: "gpu-7", Trace: config.Trace{Link: "auto", Cmdline: "off", Place: config.Place{Container: "abcdef", Job: "12"}}}
	o, err := e.live(c, place(c))
	if err != nil || o.Pods != nil || o.Place.Container != "abcdef" || o.Place.Job != "12" || o.Cmdline != redact.Off {
		t.Errorf("%+v, %v", o, err)
	}
	c.Trace.Kube.Kubelet = "https://127.0.0.1:10250"
	if o, err = e.live(c, place(c)); err != nil || o.Pods == nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// A demo recording does not reveal where it was made, since it is for others.
func TestDemoHasNoPlace(t *testing.T) {
	var o ownProcesses
	o.add(7)
	x := o.tick(&tick.Tick{Pods: []tick.Pod{{UID: "u"}}, Processes: []tick.Process{{PID: 7, Comm: "train", Where: tick.Where{Cmdline: "/home/ann/train", Job: "12"}}}})
	if len(x.Pods) != 0 || len(x.Processes) != 1 || x.Processes[0].Where != (tick.Where{}) || x.Processes[0].Comm != "train" {
		t.Errorf("%+v", x)
	}
}
