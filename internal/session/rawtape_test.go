package session_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/label"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/sim"
)

// transcript is a sink that records all output of a session.
type transcript struct{ lines []string }

func (s *transcript) add(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	s.lines = append(s.lines, strings.ReplaceAll(string(text), "[]", "null"))
}

func (s *transcript) Batch(b *tick.Batch) error {
	s.add([]any{"batch", b.Calls, b.Waits, b.Ended, b.Procs, b.Ranges, b.Labels, b.Texts, b.Functions, b.Stacks})
	return nil
}

func (s *transcript) Tick(t *tick.Tick) error {
	for i := range t.Ops {
		o := &t.Ops[i]
		s.add([]any{o.Op, o.PID, o.Sum, o.Last, o.Hist, o.Dur.Quantile(0.5), o.Dur.Quantile(0.99), o.Thinned})
	}
	s.add([]any{t.Seq, t.Time.UnixNano(), t.Started.UnixNano(), t.Window, t.Records, t.Final, t.Idle})
	s.add([]any{t.Threads, t.HostSums, t.Host, t.Self, t.Drops, t.Reports, t.Libraries, t.StackPolicy})
	s.add([]any{t.Breakdowns, t.Chains, t.States, t.Launches, t.Xids, t.GPUs})
	for _, list := range [][]tick.Process{t.Processes, t.Others} {
		for _, p := range list {
			s.add([]any{p.PID, p.PPID, p.Comm, p.Exe, p.Cgroup, p.Started.UnixNano(), p.Ended.UnixNano(), p.Mapped.UnixNano(), p.Attached.UnixNano(), p.Where})
		}
	}
	return nil
}

func (s *transcript) Close() error { return nil }

// A recorded family of short-lived processes, with stacks and named functions, plays as it ran.
func TestARawTapePlaysAsTheSessionRan(t *testing.T) {
	testkit.NeedBPF(t)
	stack, err := sim.Extract(filepath.Join(t.TempDir(), "sim"))
	if err != nil {
		t.Fatal(err)
	}
	script := `read -r _; for i in 1 2; do "$0" --steps 60 --kernel-us 300; done`
	child := testkit.Start(t, exec.Command("sh", "-c", script, stack.Program("train")))
	var raw bytes.Buffer
	live := &transcript{}
	socket := filepath.Join(t.TempDir(), "s")
	r := beginWith(t, session.LiveOptions{Labels: label.Options{Path: socket}, Select: proc.Selector{PIDs: []uint32{uint32(child.PID())}},
		Probes:  probes.Options{Rows: nameRows(), Stacks: probes.StacksAll},
		RawTape: &session.RawTape{To: &raw}}, session.Config{Sinks: []tick.Sink{live}})
	if err := label.Send(socket, &label.Message{PID: uint32(child.PID()), Set: map[string]string{"tenant": "a"}}); err != nil {
		t.Fatal(err)
	}
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	if calls := r.sum().Calls; calls == 0 {
		t.Fatal("no calls were seen")
	}
	if text := strings.Join(live.lines, "\n"); strings.Count(text, `"Key":"tenant","Value":"a"`) != 1 {
		t.Error("the label is not in one batch")
	}
	for n := range 2 {
		p, err := session.Play(bytes.NewReader(raw.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		played := &transcript{}
		if err := session.Run(t.Context(), session.Config{Source: p, Sinks: []tick.Sink{played}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live.lines, played.lines); diff != "" {
			t.Fatalf("play %d differs (-live +play):\n%.4000s", n+1, diff)
		}
	}
	t.Logf("%d bytes, %d lines", raw.Len(), len(live.lines))
}
