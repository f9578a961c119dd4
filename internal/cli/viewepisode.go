package cli

import (
	"time"

	"ingero/internal/explain"
	"ingero/internal/tick"
)

// episodes shows what a tick brought of the lives of chains: as lines of JSON, or as
// lines that stay. Where a table is redrawn it tells what is new of a chain while that
// lasts, so its lines are when one begins and when it is over. mu is held.
func (v *view) episodes(t *tick.Tick) error {
	for i := range t.Episodes {
		e := &t.Episodes[i]
		if e.Hidden || v.err != nil {
			continue
		}
		switch {
		case v.json:
			line, err := explain.EpisodeJSON(e, t)
			if err != nil {
				return err
			}
			v.put(line)
		case e.Kind != tick.EpisodeUpdate || v.pane == nil || e.Why == tick.WhySeverity:
			v.write(explain.EpisodeLine(e, t, time.Local))
		}
	}
	if v.json && len(t.Episodes) > 0 {
		v.check(v.out.Flush())
	}
	return nil
}
