package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// recordGPUs records four ticks with faults and GPUs, and returns the ticks.
func recordGPUs(t *testing.T, path string) (ticks []*tick.Tick, db *DB) {
	t.Helper()
	db, c := open(t, path, Options{Session: segment.Session{ID: "gpu-7-test", Node: "gpu-7", Started: storetest.Began}})
	g, k := storetest.NewGenerator(8), storetest.NewKernel()
	for i := range 4 {
		got := g.Calls(nil, 300)
		k.See(got)
		c.advance(time.Second)
		ticks = append(ticks, k.Tick(uint64(i+1), c.now, i == 3))
		if err := errors.Join(db.Batch(&tick.Batch{Calls: got}), db.Tick(ticks[i])); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return ticks, db
}

// The tables have each fault once, and a GPU's state whenever it changes; unknown values are NULL.
func TestFaultsAndGPUsInTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	recordGPUs(t, path)
	for query, want := range map[string]string{
		"SELECT count(*), count(DISTINCT burst), sum(root = 172) FROM xids":                                                                                                                                                                              "8 4 8",
		"SELECT code, name, severity, bus, msg, via, injected, switch, said_pid, pid, after_ns, last FROM xids WHERE at = 1 LIMIT 1":                                                                                                                     "172 UNCORRECTABLE_SRAM_ERROR warning 0000:75:00 SM ICACHE tracepoint 0 0 <nil> <nil> 0 []",
		"SELECT code, name, severity, via, said_pid, said_name, pid, comm, after_ns FROM xids WHERE at = 2 LIMIT 1":                                                                                                                                      "13 GR_EXCEPTION warning kernel-log 7 python3 4821 python3 1500",
		"SELECT json_extract(last, '$[0].op'), json_extract(last, '$[0].open'), json_extract(last, '$[0].before_ns'), json_extract(last, '$[1].tid'), json_extract(last, '$[1].result'), json_extract(last, '$[1].open') FROM xids WHERE at = 2 LIMIT 1": "cudaStreamSynchronize 1 1000000 4822 719 <nil>",
		"SELECT bus, idx, uuid, name, mem_total >> 20 FROM gpus ORDER BY bus":                                                                                                                                                                            "0000:75:00.0 0 GPU-1 NVIDIA H200 143771\n0000:76:00.0 1 GPU-2 NVIDIA A800 <nil>",
		"SELECT bus, mig, lost, throttle, busy, mem_used, clock_sm, temperature, power, ecc_corrected, ecc_uncorrected FROM gpu_states ORDER BY bus, time_ns": "0000:75:00.0 0 0 software power cap, idle 0.98 5242880 1815000000 61 688.21 2 0\n" +
			"0000:76:00.0 1 0  <nil> <nil> <nil> <nil> <nil> <nil> <nil>\n0000:76:00.0 0 1  <nil> <nil> <nil> <nil> <nil> <nil> <nil>",
	} {
		if got := testkit.Rows(t, path, query); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
		}
	}
}

// replayGPUs replays a recording of recordGPUs. It returns the recorded ticks, and what the replay gave.
func replayGPUs(t *testing.T) ([]*tick.Tick, *storetest.Keeper) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	ticks, db := recordGPUs(t, path)
	b, err := os.ReadFile(filepath.Join(LogDir(path), segment.Name(db.Session().ID, 0, true)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := segment.OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	k := &storetest.Keeper{}
	r := segment.NewReplay(l, segment.ReplayOptions{})
	if err := session.Run(context.Background(), session.Config{Source: session.FromRecording(r), Clock: r, Sinks: []tick.Sink{k}}); err != nil {
		t.Fatal(err)
	}
	return ticks, k
}

// A replay delivers each fault once, in its original tick, with the GPUs' states, and so does a
// session that is restored from it.
func TestReplayTellsFaultsAndGPUs(t *testing.T) {
	ticks, k := replayGPUs(t)
	var want, got []tick.Xid
	for _, live := range ticks {
		want = append(want, live.Xids...)
	}
	for i := range k.Ticks {
		got = append(got, k.Ticks[i].Xids...)
	}
	if d := diff.Diff(want, got); d != "" {
		t.Errorf("faults -live +replay:\n%s", d)
	}
	last := k.Ticks[len(k.Ticks)-1].GPUs
	if d := diff.Diff(ticks[3].GPUs, last, cmpopts.IgnoreFields(tick.GPU{}, "Time")); d != "" {
		t.Errorf("GPUs -live +replay:\n%s", d)
	}
}

// While another process locks the database, all faults and a bounded number of states are queued.
func TestFaultsWaitForTheDatabase(t *testing.T) {
	v := &saver{gpus: segment.GPUChanges{}}
	for i := range 2 * maxStates {
		v.noteGPU(&tick.Tick{Xids: make([]tick.Xid, 1), GPUs: []tick.GPU{{Time: storetest.Began.Add(time.Duration(i) * 10 * time.Second), Bus: "a"}}})
	}
	if len(v.xids) != 2*maxStates || len(v.gpuStates) != maxStates {
		t.Errorf("%d faults and %d states wait", len(v.xids), len(v.gpuStates))
	}
}
