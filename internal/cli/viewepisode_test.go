package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// Episodes are shown as text or JSON lines, except hidden ones and, beside a table, those that the
// table shows.
func TestEpisodesAreShown(t *testing.T) {
	event := func(kind tick.EpisodeKind, why tick.EpisodeReason) tick.Episode {
		return tick.Episode{Kind: kind, ID: "c-1.1", Why: why, Severity: tick.High, Chain: tick.Chain{ID: "c-1", Rule: "cpu-taken", PID: 7}}
	}
	hidden := event(tick.EpisodeBegin, "")
	hidden.Hidden = true
	now := &tick.Tick{Time: time.Unix(1000, 0), Episodes: []tick.Episode{hidden, event(tick.EpisodeBegin, ""),
		event(tick.EpisodeUpdate, tick.ReasonLost), event(tick.EpisodeUpdate, tick.ReasonSeverity), event(tick.EpisodeEnd, tick.ReasonOver)}}
	for _, tt := range []struct {
		name       string
		json, pane bool
		want       []string // a part of each line
	}{
		{"lines", false, false, []string{"so far", "since", "since", "over"}},
		{"a terminal", false, true, []string{"so far", "since", "over"}},
		{"JSON", true, false, []string{`"chain_begin"`, `"chain_update"`, `"chain_update"`, `"chain_end"`, `"tick"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, said := discard(t, true)
			v.verbose = false
			if tt.pane {
				v.pane = &pane{out: &bytes.Buffer{}, size: func() (int, int) { return 100, 40 }}
			}
			if tt.json {
				v.json, v.out = true, bufio.NewWriter(said)
			}
			if err := v.Tick(now); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(tt.want), said)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d: %q, want %s in it", i, lines[i], want)
				}
			}
		})
	}
}
