package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
)

// The table follows a growing recording, and says when it has ended.
func TestTopFollows(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.second(); err != nil {
		t.Fatal(err)
	}
	screen := testkit.NewTerminal(t)
	e := &Env{Lock: testPlace(t), Args: []string{"top", "--db", db, "--utc"}, Stdin: screen.Side, Stdout: screen.Side, Stderr: screen.Side,
		Getenv: func(k string) string { return map[string]string{"TERM": "xterm", "NO_COLOR": "1"}[k] },
		Now:    func() time.Time { return began.Add(63 * time.Second) }}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- e.run(ctx) }()
	head := screen.Until("CUDA Runtime: 251 calls")
	if !strings.Contains(head, "train.py (4821)") || !strings.Contains(head, "451 calls/s") || strings.Contains(head, "No trace is recording") {
		t.Errorf("the screen shows:\n%s", head)
	}
	if !strings.Contains(head, "  CPU  [") {
		t.Errorf("it does not show the machine, which is this one:\n%s", head)
	}
	if err := x.second(); err != nil {
		t.Fatal(err)
	}
	screen.Until("CUDA Runtime: 502 calls")
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	screen.Until("No trace is recording; the last recording ended at 14:41:02 UTC, 61.0 s ago")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

func TestTopSaysWhatEnded(t *testing.T) {
	v := &topView{now: func() time.Time { return began.Add(2 * time.Minute) }}
	v.show.Location = zoneCET
	for state, want := range map[string]string{
		"running":     "",
		"ended":       "No trace is recording; the last recording ended at 15:41:00 CET, 2 min 0 s ago\n",
		"interrupted": "No trace is recording; the last recording ended at 15:41:00 CET, 2 min 0 s ago, when it was killed\n",
		"full":        "No trace is recording; the last recording ended at 15:41:00 CET, 2 min 0 s ago: no space?\n",
	} {
		s := &query.Session{Session: segment.Session{Started: began}, Updated: began, State: state, Problem: "no space\x1b"}
		if got := v.state(s); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	v.now = func() time.Time { return began.Add(25 * time.Hour) }
	if got := v.state(&query.Session{Updated: began, State: "ended"}); !strings.Contains(got, "at 2026-11-20 15:41:00 CET, 25 h 0 min ago") {
		t.Errorf("of yesterday: %q", got)
	}
}
