package explain

import (
	"encoding/json"
	"fmt"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// BuildEpisode returns an episode's event in a tick. Its type is chain_begin, chain_update, chain_end
// or chain_revised; episode is constant within an episode.
func BuildEpisode(e *tick.Episode, t *tick.Tick) *wire.Episode {
	return &wire.Episode{
		Type: e.Kind.String(), Timestamp: t.Time.UTC(), Episode: clean(e.ID), Why: string(e.Why), Severity: e.Severity.String(),
		From: e.From.UTC(), To: e.To.UTC(), LostNS: int64(e.Lost), Chain: chainOf(&e.Chain, victims(t.Processes, &t.Host)(e.Chain.PID)),
	}
}

// EpisodeJSON is [BuildEpisode] as one line of JSON without the newline.
func EpisodeJSON(e *tick.Episode, t *tick.Tick) ([]byte, error) {
	return json.Marshal(BuildEpisode(e, t))
}

// EpisodeLine returns the same event as one line of text.
func EpisodeLine(e *tick.Episode, t *tick.Tick, zone *time.Location) string {
	c := &e.Chain
	words := wordsFor(c)
	clock := func(at time.Time) string { return at.In(zone).Format("15:04:05") }
	s := fmt.Sprintf("%s  [%s] %s: %s", clock(t.Time), e.Severity, nameOf(t.Processes, c.PID), words.head(c)+withPID(c))
	lost := Duration(int64(e.Lost)) + " lost"
	switch {
	case e.Kind == tick.EpisodeRevised:
		return s + " - withdrawn: with more data, it is too small to report or not confirmed"
	case e.Kind == tick.EpisodeEnd && e.Why == tick.ReasonSilenced:
		return s + " - silenced; " + lost + " so far"
	case e.Kind == tick.EpisodeEnd && e.Why == tick.ReasonFinal:
		return s + ", " + lost + " since " + clock(e.From)
	case e.Kind == tick.EpisodeEnd:
		return s + " - over: " + lost + ", " + clock(e.From) + " to " + clock(e.To)
	case e.Kind == tick.EpisodeUpdate:
		return s + ", " + lost + " since " + clock(e.From)
	}
	return s + ", " + lost + " so far"
}
