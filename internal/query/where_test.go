package query

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// withoutWhere removes the locations of processes.
const withoutWhere = "DROP TABLE pods;" +
	"ALTER TABLE processes DROP COLUMN cmdline; ALTER TABLE processes DROP COLUMN runtime; ALTER TABLE processes DROP COLUMN container;" +
	"ALTER TABLE processes DROP COLUMN container_name; ALTER TABLE processes DROP COLUMN pod; ALTER TABLE processes DROP COLUMN namespace;" +
	"ALTER TABLE processes DROP COLUMN pod_uid; ALTER TABLE processes DROP COLUMN qos; ALTER TABLE processes DROP COLUMN unit;" +
	"ALTER TABLE processes DROP COLUMN job; ALTER TABLE processes DROP COLUMN step; ALTER TABLE processes DROP COLUMN rank;" +
	"ALTER TABLE processes DROP COLUMN local_rank; ALTER TABLE processes DROP COLUMN world_size; ALTER TABLE processes DROP COLUMN local_world_size;" +
	"ALTER TABLE processes DROP COLUMN node_rank; ALTER TABLE processes DROP COLUMN master; ALTER TABLE processes DROP COLUMN visible_devices;"

// placed is a process location with all fields set.
var placed = tick.Where{
	Cmdline: "python train.py --token ***", Runtime: "containerd", Container: "3f2b8c1d9e7a", ContainerName: "trainer", Pod: "train-0", Namespace: "ml",
	PodUID: "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b", QoS: "burstable", Unit: "x.service", Job: "12", Step: "0",
	Rank: tick.Numbered(0), LocalRank: tick.Numbered(1), WorldSize: tick.Numbered(8), LocalSize: tick.Numbered(2), NodeRank: tick.Numbered(3),
	Master: "10.0.0.1:29500", Devices: "none",
}

// recordPlaced records a process with all fields and its calls, a process that took its time, and a
// pod that starts later; end closes the recording.
func recordPlaced(t *testing.T, path string) (end func()) {
	t.Helper()
	x := record(t, path, segment.Session{ID: "one"})
	x.second()
	tell := func(phase string, final bool) {
		now := x.tick(final)
		now.Processes[0].Where = placed
		now.Others = []tick.Process{{PID: 9, Comm: "hog", Where: tick.Where{Cmdline: "hog -n 4", Unit: "cron.service"}}}
		now.Pods = []tick.Pod{{UID: "u", Name: "train-0", Namespace: "ml", Phase: phase, GPUs: 2}}
		if err := x.db.Tick(now); err != nil {
			t.Fatal(err)
		}
	}
	tell("Pending", false)
	x.now = x.now.Add(time.Second)
	tell("Running", false)
	return func() {
		tell("Running", true)
		if err := x.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Recorded process locations are read back, live and at rest.
func TestWhereComesBack(t *testing.T) {
	path := t.TempDir() + "/a.db"
	end := recordPlaced(t, path)
	check := func(t *testing.T) {
		t.Helper()
		r := openReader(t, path)
		all := summary(t, r, Filter{Session: "one"}).Processes
		if len(all) != 3 || all[1].Where != (tick.Where{}) {
			t.Errorf("processes %+v", all)
		}
		if diff := cmp.Diff(placed, all[0].Where); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for sql, want := range map[string][]any{
			"SELECT container, container_name, pod, namespace, job, rank FROM events WHERE pid = (SELECT pid FROM processes WHERE pod = 'train-0') LIMIT 1": {"3f2b8c1d9e7a", "trainer", "train-0", "ml", "12", int64(0)},
			"SELECT count(*) > 0 FROM events WHERE pod IS NULL AND rank IS NULL":                                                                            {int64(1)},
		} {
			res, err := r.SQL(t.Context(), sql, SQLLimits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]any{want}, res.Rows); diff != "" {
				t.Errorf("%s (-want +got):\n%s", sql, diff)
			}
		}
	}
	t.Run("live", check)
	end()
	t.Run("at rest", check)
}

// A pod that requested GPUs is listed with its start and end.
func TestPodsComeBack(t *testing.T) {
	path := t.TempDir() + "/a.db"
	recordPlaced(t, path)()
	res, err := openReader(t, path).SQL(t.Context(), "SELECT uid, name, namespace, phase, gpus, last_ns - first_ns FROM pods", SQLLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]any{{"u", "train-0", "ml", "Running", int64(2), int64(time.Second)}}, res.Rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Processes that took a target's time are in the log with their locations.
func TestWhereOfOthersComesBack(t *testing.T) {
	path := t.TempDir() + "/a.db"
	recordPlaced(t, path)()
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
	var e segment.Entry
	var found tick.Where
	for log.Next(&e) == nil {
		if e.Other != nil && e.Other.PID == 9 {
			found = e.Other.Where
		}
	}
	if want := (tick.Where{Cmdline: "hog -n 4", Unit: "cron.service"}); found != want {
		t.Errorf("got %+v, want %+v", found, want)
	}
}
