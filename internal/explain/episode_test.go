package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// Each event in the life of a chain is a line of text, and a line of JSON with the same facts.
func TestEpisode(t *testing.T) {
	c := takenChain(4821)
	now := &tick.Tick{Time: start.Add(45 * time.Second), Processes: []tick.Process{{PID: 4821, Comm: "train.py"}}}
	const head = "14:41:45  [HIGH] train.py (4821): CPU taken by stress-ng (8821)"
	for _, tt := range []struct {
		kind tick.EpisodeKind
		why  tick.EpisodeReason
		want string
	}{
		{tick.EpisodeBegin, "", ", 1.37 s lost so far"},
		{tick.EpisodeUpdate, tick.ReasonLost, ", 1.37 s lost since 14:41:20"},
		{tick.EpisodeEnd, tick.ReasonOver, " - over: 1.37 s lost, 14:41:20 to 14:41:25"},
		{tick.EpisodeEnd, tick.ReasonExit, " - over: 1.37 s lost, 14:41:20 to 14:41:25"},
		{tick.EpisodeEnd, tick.ReasonFinal, ", 1.37 s lost since 14:41:20"},
		{tick.EpisodeEnd, tick.ReasonSilenced, " - silenced; 1.37 s lost so far"},
		{tick.EpisodeRevised, "", " - withdrawn: with more data, it is too small to report or not confirmed"},
	} {
		e := tick.Episode{Kind: tt.kind, ID: "c-7f3a.20", Why: tt.why, Severity: tick.High, From: c.From, To: c.To, Lost: c.Lost, Chain: c}
		if got := EpisodeLine(&e, now, time.UTC); got != head+tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.kind, tt.why, got, head+tt.want)
		}
		text, err := EpisodeJSON(&e, now)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		chain, _ := got["chain"].(map[string]any)
		if why, _ := got["why"].(string); got["type"] != tt.kind.String() || why != string(tt.why) || got["episode"] != "c-7f3a.20" ||
			got["lost_ns"] != 1.37e9 || chain["rule"] != "cpu-taken" || strings.Contains(string(text), "\n") {
			t.Errorf("%s", text)
		}
	}
}
