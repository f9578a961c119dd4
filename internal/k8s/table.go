package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"ingero/internal/backoff"
	"ingero/internal/tick"
)

const (
	// maxPods bounds a table: a node has 110, or a few hundred.
	maxPods = 4096
	// maxKicks bounds the polls that a single unknown pod requests.
	maxKicks = 10
)

// Table has the pods of this machine. Its methods are safe for concurrent use.
type Table struct {
	o       Options
	client  *client
	changed chan struct{}
	kick    chan struct{} // requests a poll now

	mu         sync.Mutex
	pods       map[string]*known // by each of their ids
	containers map[string]*known // by container id
	kicks      map[string]int    // polls that unknown pods have requested
}

// New returns an empty table. Nothing is requested before Run.
func New(o Options) (*Table, error) {
	c, err := newClient(&o)
	if err != nil {
		return nil, err
	}
	if o.Poll == 0 {
		o.Poll = 10 * time.Second
	}
	return &Table{o: o, client: c, changed: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		pods: map[string]*known{}, containers: map[string]*known{}, kicks: map[string]int{}}, nil
}

// Changed delivers a value after pods were added, removed or changed.
func (t *Table) Changed() <-chan struct{} { return t.changed }

// Run updates the table until ctx is done. It calls problem when an update fails, once for each
// different reason.
func (t *Table) Run(ctx context.Context, problem func(error)) {
	defer t.client.http.CloseIdleConnections()
	query, least := t.queryAPI, t.o.Poll/10
	if t.o.Kubelet != "" {
		query = t.queryKubelet
	}
	again := newRetry(least)
	for {
		began := time.Now()
		err := query(ctx)
		if ctx.Err() != nil {
			return
		}
		pause, isNew := again.after(time.Since(began), err)
		if isNew {
			problem(err)
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
		if err == nil && t.o.Kubelet != "" {
			select {
			case <-ctx.Done():
				return
			case <-t.kick:
			case <-time.After(t.o.Poll - pause):
			}
		}
	}
}

// retry decides when to query again, and which problems are new.
type retry struct {
	untried, delays backoff.Delays
	reported        string // the last problem
}

// newRetry returns a retry that pauses between two answers.
func newRetry(pause time.Duration) *retry {
	d := backoff.Delays{First: pause, Most: time.Minute}
	return &retry{untried: d, delays: d}
}

// after returns the pause after a query that lasted for some time, and whether its error is new. A
// query that lasted for more than the longest pause was a watch that worked until its connection
// ended.
func (r *retry) after(lasted time.Duration, err error) (pause time.Duration, isNew bool) {
	if err == nil || lasted > r.untried.Most {
		r.reported, r.delays = "", r.untried
	}
	if err == nil {
		return r.untried.First, false
	}
	isNew = err.Error() != r.reported
	r.reported = err.Error()
	return r.delays.Next(), isNew
}

// queryKubelet polls once.
func (t *Table) queryKubelet(ctx context.Context) error {
	pods, _, err := t.client.list(ctx, "/pods", url.Values{})
	if err != nil {
		return err
	}
	return t.replace(pods)
}

// queryAPI lists, then watches until a request fails or the version is too old.
func (t *Table) queryAPI(ctx context.Context) error {
	const path = "/api/v1/pods"
	own := func() url.Values { return url.Values{"fieldSelector": {"spec.nodeName=" + t.o.Node}} }
	query := own()
	query.Set("limit", fmt.Sprint(pageSize))
	pods, version, err := t.client.list(ctx, path, query)
	if err != nil {
		return err
	}
	if err := t.replace(pods); err != nil {
		return err
	}
	for {
		began := time.Now()
		version, err = t.client.watch(ctx, path, own(), version, t.take)
		switch {
		case errors.Is(err, errGone):
			return nil
		case err != nil:
			return err
		}
		if time.Since(began) < time.Second && backoff.Sleep(ctx, t.o.Poll/10) != nil { // the server ends watches at once
			return nil
		}
	}
}

// take applies one change.
func (t *Table) take(kind string, p *pod) {
	k := p.known()
	if k.UID == "" || kind == "BOOKMARK" {
		return
	}
	t.mu.Lock()
	before := t.pods[k.UID]
	t.forget(before)
	changed := before != nil
	if kind != "DELETED" {
		t.keep(k)
		changed = before == nil || !before.same(k)
	}
	t.mu.Unlock()
	if changed { // not if only its conditions did
		t.notify()
	}
}

// replace replaces the table by a server's list.
func (t *Table) replace(pods []pod) error {
	t.mu.Lock()
	before := t.pods
	t.pods, t.containers = map[string]*known{}, map[string]*known{}
	left := 0
	for i := range pods {
		if k := pods[i].known(); !t.keep(k) {
			left++
		}
	}
	same := len(before) == len(t.pods)
	for id, k := range t.pods {
		same = same && before[id] != nil && before[id].same(k)
	}
	t.mu.Unlock()
	if !same {
		t.notify()
	}
	if left > 0 {
		return fmt.Errorf("there are %d pods, more than the limit of %d", len(pods), maxPods)
	}
	return nil
}

// same reports whether two states of a pod are equal.
func (k *known) same(o *known) bool {
	if k.Pod != o.Pod || k.job != o.job || len(k.containers) != len(o.containers) {
		return false
	}
	for id := range k.containers {
		if _, ok := o.containers[id]; !ok {
			return false
		}
	}
	return true
}

// keep adds a pod if there is room. mu is held.
func (t *Table) keep(k *known) bool {
	if k.UID == "" || len(t.pods) >= maxPods {
		return k.UID == ""
	}
	for _, id := range k.ids() {
		t.pods[id] = k
	}
	for id := range k.containers {
		t.containers[id] = k
	}
	return true
}

// forget removes a pod; nil: none. mu is held.
func (t *Table) forget(k *known) {
	if k == nil {
		return
	}
	for _, id := range k.ids() {
		delete(t.pods, id)
	}
	for id := range k.containers {
		delete(t.containers, id)
	}
}

func (t *Table) notify() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// wantPod requests a poll now for an unknown pod, which may have just started. A pod that stays unknown
// requests at most maxKicks polls.
func (t *Table) wantPod(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if uid == "" || t.kicks[uid] >= maxKicks {
		return
	}
	select {
	case t.kick <- struct{}{}:
		if len(t.kicks) >= maxPods {
			clear(t.kicks)
		}
		t.kicks[uid]++
	default:
	}
}

// Complete adds the facts about a process's pod, found by its id or the container's. It reports
// whether the pod is known.
func (t *Table) Complete(w *tick.Where) bool {
	if w.PodUID == "" && w.Container == "" {
		return false
	}
	t.mu.Lock()
	k := t.pods[w.PodUID]
	if k == nil {
		k = t.containers[w.Container]
	}
	t.mu.Unlock()
	if k == nil {
		t.wantPod(w.PodUID)
		return false
	}
	w.Pod, w.Namespace, w.PodUID = k.Name, k.Namespace, k.UID
	w.QoS, w.Job = cmp.Or(k.qos, w.QoS), cmp.Or(w.Job, k.job)
	c, ok := k.containers[w.Container]
	if ok {
		w.ContainerName, w.Runtime = c.Name, cmp.Or(w.Runtime, c.ContainerID)
	}
	return ok || w.Container == ""
}

// List returns the pods that request GPUs and have not ended, by namespace and name.
func (t *Table) List() []tick.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []tick.Pod
	for id, k := range t.pods {
		if id == k.UID && k.GPUs > 0 && !k.over() {
			out = append(out, k.Pod)
		}
	}
	slices.SortFunc(out, func(a, b tick.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}
