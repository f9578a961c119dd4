package query

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// withoutWhere takes out where processes ran.
const withoutWhere = "DROP TABLE pods;" +
	"ALTER TABLE processes DROP COLUMN cmdline; ALTER TABLE processes DROP COLUMN runtime; ALTER TABLE processes DROP COLUMN container;" +
	"ALTER TABLE processes DROP COLUMN container_name; ALTER TABLE processes DROP COLUMN pod; ALTER TABLE processes DROP COLUMN namespace;" +
	"ALTER TABLE processes DROP COLUMN pod_uid; ALTER TABLE processes DROP COLUMN qos; ALTER TABLE processes DROP COLUMN unit;" +
	"ALTER TABLE processes DROP COLUMN job; ALTER TABLE processes DROP COLUMN step; ALTER TABLE processes DROP COLUMN rank;" +
	"ALTER TABLE processes DROP COLUMN local_rank; ALTER TABLE processes DROP COLUMN world_size; ALTER TABLE processes DROP COLUMN local_world_size;" +
	"ALTER TABLE processes DROP COLUMN node_rank; ALTER TABLE processes DROP COLUMN master; ALTER TABLE processes DROP COLUMN visible_devices;"

// placed is all that can be said of where a process runs.
var placed = tick.Where{
	Cmdline: "python train.py --token ***", Runtime: "containerd", Container: "3f2b8c1d9e7a", ContainerName: "trainer", Pod: "train-0", Namespace: "ml",
	PodUID: "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b", QoS: "burstable", Unit: "x.service", Job: "12", Step: "0",
	Rank: tick.Numbered(0), LocalRank: tick.Numbered(1), WorldSize: tick.Numbered(8), LocalSize: tick.Numbered(2), NodeRank: tick.Numbered(3),
	Master: "10.0.0.1:29500", Devices: "none",
}

// What is recorded of where processes run comes back, also from the segments alone.
func TestWhereComesBack(t *testing.T) {
	path := t.TempDir() + "/a.db"
	x := record(t, path, store.Session{ID: "one"})
	x.second()
	now := x.tick(false)
	now.Processes[0].Where = placed
	now.Others = append(now.Others, tick.Process{PID: 9, Comm: "hog", Where: tick.Where{Cmdline: "hog -n 4", Unit: "cron.service"}})
	now.Pods = []tick.Pod{{UID: "u", Name: "train-0", Namespace: "ml", Phase: "Pending", GPUs: 2}}
	if err := x.db.Tick(now); err != nil {
		t.Fatal(err)
	}
	later := x.tick(false)
	later.Time = now.Time.Add(time.Second)
	later.Processes[0].Where = placed
	later.Pods = []tick.Pod{{UID: "u", Name: "train-0", Namespace: "ml", Phase: "Running", GPUs: 2}}
	if err := x.db.Tick(later); err != nil {
		t.Fatal(err)
	}
	pid := now.Processes[0].PID
	check := func(t *testing.T) {
		t.Helper()
		r := openReader(t, path)
		all, err := r.Processes(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			want := tick.Where{}
			if all[i].PID == pid {
				want = placed
			}
			if diff := cmp.Diff(want, all[i].Where); diff != "" {
				t.Errorf("process %d (-want +got):\n%s", all[i].PID, diff)
			}
		}
		res, err := r.SQL(t.Context(), "SELECT container, container_name, pod, namespace, job, rank FROM events WHERE pid = (SELECT pid FROM processes WHERE pod = 'train-0') LIMIT 1", SQLLimits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]any{{"3f2b8c1d9e7a", "trainer", "train-0", "ml", "12", int64(0)}}, res.Rows); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		res, err = r.SQL(t.Context(), "SELECT count(*) FROM events WHERE pod IS NULL AND rank IS NULL", SQLLimits{})
		if err != nil || len(res.Rows) != 1 || res.Rows[0][0] == int64(0) {
			t.Errorf("calls of processes whose place is not known: %v, %v", res, err)
		}
	}
	t.Run("live", check)
	t.Run("pods", func(t *testing.T) {
		res, err := openReader(t, path).SQL(t.Context(), "SELECT uid, name, namespace, phase, gpus, last_ns - first_ns FROM pods", SQLLimits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]any{{"u", "train-0", "ml", "Running", int64(2), int64(time.Second)}}, res.Rows); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("others", func(t *testing.T) {
		r := openReader(t, path)
		s, err := r.Session(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		log, err := r.OpenLog(&s)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = log.Close() }()
		var e store.Entry
		found := tick.Where{}
		for log.Next(&e) == nil {
			if e.Other != nil && e.Other.PID == 9 {
				found = e.Other.Where
			}
		}
		if found.Cmdline != "hog -n 4" || found.Unit != "cron.service" {
			t.Errorf("got %+v", found)
		}
	})
	x.close()
	t.Run("at rest", check)
}
