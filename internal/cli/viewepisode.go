package cli

import (
	"time"

	"ingero/internal/explain"
	"ingero/internal/tick"
)

// episodes shows a tick's episodes of chains, as JSON lines or permanent lines. Above a redrawn
// table, it shows updates only if the severity changed; the table shows the rest. The caller
// holds mu.
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
			v.writeLine(line)
		case e.Kind != tick.EpisodeUpdate || v.pane == nil || e.Why == tick.ReasonSeverity:
			v.write(explain.EpisodeLine(e, t, time.Local))
		}
	}
	if v.json && len(t.Episodes) > 0 {
		v.check(v.out.Flush())
	}
	return nil
}
