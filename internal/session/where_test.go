package session_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/k8s"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// Unique to this test run, since others may run at the same time.
var (
	containerID = fmt.Sprintf("%08x9e7a6f5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b", os.Getpid())
	podID       = fmt.Sprintf("%08x-1b3d-4e5f-8a9b-0c1d2e3f4a5b", os.Getpid())
	stranger    = 1<<22 + uint32(os.Getpid()) // a user without other processes
)

// kubelet answers with one pod once it is there, as a kubelet does.
type kubelet struct {
	there atomic.Bool
	asked atomic.Int64
}

// ServeHTTP implements [http.Handler].
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pods := ""
	if k.there.Load() {
		pods = fmt.Sprintf(`{"metadata":{"name":"train-0","namespace":"ml","uid":%q},
			"spec":{"containers":[{"name":"trainer","resources":{"limits":{"nvidia.com/gpu":"2"}}}]},
			"status":{"phase":"Running","qosClass":"Burstable","containerStatuses":[{"name":"trainer","containerID":"containerd://%s"}]}}`, podID, containerID)
	}
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}`, pods)
	k.asked.Add(1)
}

// pods returns the kubelet's pods.
func (k *kubelet) pods(t *testing.T) *k8s.Table {
	t.Helper()
	s := httptest.NewServer(k)
	t.Cleanup(s.Close)
	x, err := k8s.New(k8s.Options{Kubelet: s.URL, Poll: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// inPod starts a worker, in the cgroup of a pod's container or not, and waits until it is ready.
func inPod(t *testing.T, dir string, in func(pid int), cmdline []string, env ...string) *testkit.Child {
	t.Helper()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(dir+"/worker", append([]string{"late", "100"}, cmdline...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	cmd.Env = append(append(os.Environ(), "LIBCUDART="+dir+"/libcudart.so.12"), env...)
	c := testkit.Start(t, cmd)
	c.Line("ready")
	if in != nil {
		in(c.PID())
	}
	return c
}

// finish lets a worker load its library, make its calls once it is attached, and end.
func finish(t *testing.T, c *testkit.Child, seen chan session.Notice) {
	t.Helper()
	c.Send("load")
	c.Line("loaded")
	next(t, seen)
	c.Send("go")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

// traced returns the processes of the last tick with calls, by number.
func (r *running) traced() map[uint32]*tick.Process {
	out := map[uint32]*tick.Process{}
	for i := range r.last.Processes {
		p := &r.last.Processes[i]
		for _, o := range r.last.Ops {
			if o.PID == p.PID && o.Sum.Calls > 0 {
				out[p.PID] = p
			}
		}
	}
	return out
}

// A process's place has everything that its cgroup, environment, arguments and the kubelet tell.
func TestWhereAProcessRuns(t *testing.T) {
	dir := build(t)
	testkit.LeakCheck(t)
	path, in := testkit.Cgroup(t, "kubepods", "burstable", "pod"+podID, containerID)
	k := &kubelet{}
	k.there.Store(true)
	child := inPod(t, dir, in, []string{"--hf-token", "Zq9vX7Lm"},
		"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500",
		"CUDA_VISIBLE_DEVICES=0,1", "SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "WANDB_API_KEY=Zq9vX7Lm")
	o, seen := attaches(session.LiveOptions{Select: pids(child), Pods: k.pods(t)})
	r := beginWith(t, o, session.Config{Interval: 20 * time.Millisecond})
	testkit.Eventually(t, "the kubelet to be asked", func() bool { return k.asked.Load() > 0 })
	child.Send("load")
	child.Line("loaded")
	next(t, seen)
	testkit.Eventually(t, "what is read of a process that lives", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && len(r.last.Processes) == 1 && r.last.Processes[0].Cmdline != "" && r.last.Processes[0].Pod != ""
	})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	p := r.traced()[uint32(child.PID())]
	if p == nil {
		t.Fatalf("it is not traced: %+v", r.last.Processes)
	}
	want := tick.Where{
		Cmdline: dir + "/worker late 100 --hf-token ***", Runtime: "containerd", Container: containerID, ContainerName: "trainer", Pod: "train-0", Namespace: "ml",
		PodUID: podID, QoS: "burstable", Job: "4711", Step: "0",
		Rank: tick.Numbered(3), LocalRank: tick.Numbered(1), WorldSize: tick.Numbered(8), LocalSize: tick.Numbered(2), NodeRank: tick.Numbered(1),
		Master: "10.0.0.1:29500", Devices: "0,1",
	}
	if diff := cmp.Diff(want, p.Where); diff != "" || p.Cgroup != path {
		t.Errorf("cgroup %s, where (-want +got):\n%s", p.Cgroup, diff)
	}
	if diff := cmp.Diff([]tick.Pod{{UID: podID, Name: "train-0", Namespace: "ml", Phase: "Running", GPUs: 2}}, r.last.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// Only processes of the selected place are traced, by each kind of selector.
func TestPlaceSelects(t *testing.T) {
	dir := build(t)
	for name, place := range map[string]where.Selector{
		"container": {Container: containerID[:12]},
		"pod's id":  {Pod: podID},
		"cgroup":    {Cgroup: "/pod" + podID + "/"},
		"job":       {Job: "4711"},
		"pod":       {Pod: "train-0", Namespace: "ml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, in := testkit.Cgroup(t, "kubepods", "pod"+podID, containerID)
			there := inPod(t, dir, in, nil, "SLURM_JOB_ID=4711")
			elsewhere := inPod(t, dir, nil, nil, "SLURM_JOB_ID=4712")
			o, seen := attaches(session.LiveOptions{Place: place, Select: proc.Selector{UIDs: []uint32{stranger}}})
			k := &kubelet{}
			if place.NeedsPods() {
				o.Pods = k.pods(t)
			}
			r := begin(t, o)
			elsewhere.Send("load")
			elsewhere.Line("loaded")
			there.Send("load")
			there.Line("loaded")
			if place.NeedsPods() { // it is known only after it has loaded the library
				testkit.Eventually(t, "the kubelet to be asked", func() bool { return k.asked.Load() > 0 })
				k.there.Store(true)
			}
			next(t, seen)
			for _, c := range []*testkit.Child{elsewhere, there} {
				c.Send("go")
				if err := c.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			r.cancel()
			r.end(t)
			if got := r.traced(); len(got) != 1 || got[uint32(there.PID())] == nil {
				t.Errorf("traced are %v, want %d alone", got, there.PID())
			}
			r.exact(t, 100)
		})
	}
}

// An unavailable kubelet is reported, and nothing else suffers.
func TestPodsAreNotKnown(t *testing.T) {
	dir := build(t)
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	x, err := k8s.New(k8s.Options{Kubelet: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	child := inPod(t, dir, nil, nil)
	o, seen := attaches(session.LiveOptions{Select: pids(child), Pods: x})
	r := begin(t, o)
	testkit.Eventually(t, "word of it", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && slices.ContainsFunc(r.last.Reports, func(x tick.Report) bool { return x.Kind == "kubernetes" })
	})
	finish(t, child, seen)
	r.end(t)
	r.exact(t, 100)
}

// A process has its own command line after an exec, and its parent's after a fork.
func TestCommandLineOfChildren(t *testing.T) {
	dir := build(t)
	child := worker(t, dir, "forks", "100", "RANK=5")
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child)})
	testkit.Eventually(t, "the parent's command line", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && len(r.last.Processes) == 1 && r.last.Processes[0].Cmdline != ""
	})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	of := map[string]int{} // by the text after the path
	for _, p := range r.last.Processes {
		line := strings.TrimPrefix(p.Cmdline[strings.LastIndexByte(p.Cmdline, '/')+1:], "worker ")
		if p.Rank != tick.Numbered(5) && (line == "forks 100" || p.Rank != 0) {
			t.Errorf("%s has rank %s", p.Cmdline, p.Rank)
		}
		of[line]++
	}
	// After an exec, a process may end before its command line is read, or before its environment is.
	if of["forks 100"] < 1 || of["forks 100"]+of["now 100"]+of[""] != 41 {
		t.Errorf("command lines %v", of)
	}
}
