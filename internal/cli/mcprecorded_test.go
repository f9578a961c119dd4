package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/sim"
)

// recordAnew makes TestMCPRecorded renew its recording first: as root, on an otherwise idle
// machine.
var recordAnew = flag.Bool("record", false, "record testdata/mcp/job.ingero anew")

const jobRecording = "testdata/mcp/job.ingero"

// jobKinds lists the tools that have nothing to report for the incident.
var jobKinds = []string{"get_memory", "get_xids", "get_stacks", "graph_lifecycle", "graph_frequency", "get_trace_stats"}

// The tools for memory, faults, stacks and graphs report on a job on the simulated GPU, traced by
// real probes. The job allocates as PyTorch does, captures and launches a graph, and has one fault.
func TestMCPRecorded(t *testing.T) {
	if *recordAnew {
		recordJob(t)
	}
	testkit.LeakCheck(t)
	a := pipes(t, jobDB(t), "")
	var all strings.Builder
	for _, name := range jobKinds {
		short := a.call(name, map[string]any{"max_tokens": 1000})
		long := a.call(name, map[string]any{"max_tokens": 1000, "tsc": false})
		if short.refused || len(short.rows) == 0 {
			t.Errorf("%s: %s", name, short.text)
		}
		fmt.Fprintf(&all, "== %s\n%s-- sentences\n%s", name, short.text, long.text)
	}
	testkit.Golden(t, "mcp/job.txt", all.String())
}

// jobDB creates a database with that recording.
func jobDB(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(jobRecording)
	if err != nil {
		t.Fatal(err)
	}
	log := opened(t, text)
	s := log.Session()
	s.ID = "job"
	replay := segment.NewReplay(log, segment.ReplayOptions{})
	path := filepath.Join(t.TempDir(), "job.db")
	db, err := store.Open(store.Options{Path: path, Session: s, Now: replay.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Run(t.Context(), session.Config{Source: session.FromRecording(replay), Clock: replay, Sinks: []tick.Sink{db}, Poll: replayPoll}); err != nil {
		t.Fatal(err)
	}
	return path
}

// ownOnly is a sink that forwards the events of a job's processes without the names of others.
type ownOnly struct {
	tick.Sink
	own *ownProcesses
}

// Batch implements [tick.Sink].
func (o *ownOnly) Batch(b *tick.Batch) error {
	x := o.own.batch(b)
	x.Stacks, x.Functions = b.Stacks, b.Functions
	return o.Sink.Batch(x)
}

// Tick implements [tick.Sink].
func (o *ownOnly) Tick(t *tick.Tick) error {
	x := o.own.tick(t)
	x.Xids = t.Xids
	return o.Sink.Tick(x)
}

// recordJob makes the recording that TestMCPRecorded replays.
func recordJob(t *testing.T) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.KernelLog(t, false)
	const dir = "/tmp/ingero-job" // this path is in the recording
	stack, err := sim.Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	job, err := launch(&exec.Cmd{Path: stack.Program("torch"), Args: []string{"torch", "--graph", "--steps", "150", "--kernel-us", "300"}, Dir: dir,
		Env: []string{"INGERO_SIM_SYNC=block"}, Stdout: os.Stderr, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer job.kill()
	var own ownProcesses
	own.add(job.pid(), uint32(os.Getpid()))
	live, err := session.OpenLive(t.Context(), session.LiveOptions{Gated: job.pid(), Select: proc.Selector{PIDs: []uint32{job.pid()}}, Probes: probes.Options{Stacks: probes.StacksAll}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.db")
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{Node: "gpu-7", Version: "v1.2.3", Kernel: "6.18.0", Mode: "run", Target: "torch", PID: os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	job.run()
	go func() { <-job.ended; stop() }()
	fault := time.AfterFunc(300*time.Millisecond, func() {
		line := fmt.Sprintf("NVRM: Xid (PCI:0000:75:00): 31, pid=%d, name=torch, Ch 00000008, intr 00000000\n", job.pid())
		if err := os.WriteFile("/dev/kmsg", []byte(line), 0); err != nil {
			t.Error(err)
		}
	})
	defer fault.Stop()
	if err := session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{&ownOnly{db, &own}}}); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(store.LogDir(path), "*.iseg"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("the recording's files are %q: %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err = errors.Join(err, os.WriteFile(jobRecording, text, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"/work", "timeout", "compile"} {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("it has %q in it", word)
		}
	}
}
