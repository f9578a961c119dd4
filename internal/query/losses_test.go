package query

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A window has each loss once, and the part inside it of those that it cuts: b was over after a
// second, and cost nothing in the rest of its minute. So does a recording with chains and no losses
// by time.
func TestLosses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "gpu-1-a", Node: "gpu-1"})
	for i := range 120 {
		x.now = x.now.Add(time.Second)
		tk := x.tick(false)
		c := tick.Chain{ID: "a", Rule: "cpu-taken", PID: 4821, From: began, To: x.now, Lost: x.now.Sub(began) / 10,
			Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("stress")}, Lost: 1}}}
		b := tick.Chain{ID: "b", Rule: "disk-wait", PID: 4830, From: began, To: began.Add(time.Second), Lost: time.Duration(i) * time.Millisecond,
			Culprits: []tick.Culprit{{What: "disk 8:0", Lost: 1}}}
		tk.Chains = []tick.Chain{c, b}
		if err := x.db.Tick(tk); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	for name, tt := range map[string]struct {
		f    Filter
		want string
	}{
		"all":             {Filter{}, "a stress 0-60 6s; b disk 8:0 0-1 119ms; a stress 60-120 6s"},
		"the window cuts": {Filter{From: began.Add(30 * time.Second), To: began.Add(90 * time.Second)}, "a stress 30-60 3s; a stress 60-90 3s"},
		"and b":           {Filter{From: began.Add(500 * time.Millisecond), To: began.Add(20 * time.Second)}, "a stress 0-20 1.95s; b disk 8:0 0-1 59.5ms"},
		"a process":       {Filter{Session: AllSessions, PIDs: []uint32{4830}}, "b disk 8:0 0-1 119ms"},
		"another time":    {Filter{From: began.Add(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lossesOf(t, r, tt.f); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("DELETE FROM losses WHERE chain = 'a'"); err != nil {
		t.Fatal(err)
	}
	if got, want := lossesOf(t, r, Filter{To: began.Add(30 * time.Second)}), "a stress 0-30 3s; b disk 8:0 0-1 119ms"; got != want {
		t.Errorf("of chains: %s\nwant %s", got, want)
	}
}

func lossesOf(t *testing.T, r *Reader, f Filter) string {
	t.Helper()
	all, err := r.Losses(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, l := range all {
		parts = append(parts, fmt.Sprintf("%s %s %.0f-%.0f %v", l.Chain, l.Culprit, l.From.Sub(began).Seconds(), l.To.Sub(began).Seconds(), l.Lost))
	}
	return strings.Join(parts, "; ")
}
