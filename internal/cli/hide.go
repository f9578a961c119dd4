package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/mute"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// filter returns the filter for causes of the settings.
func filter(c *config.Config) mute.Filter {
	least, _ := tick.ParseSeverity(c.Causes.MinSeverity) // already validated
	return mute.Filter{Least: least, Off: c.Causes.RulesOff}
}

// splitChains splits chains into those to show and those hidden at a time, by the settings and
// by the silences in the database.
func splitChains(ctx context.Context, f mute.Filter, r *query.Reader, now time.Time, chains []tick.Chain) (_ []tick.Chain, _ []tick.Hidden, err error) {
	if f.Silences, err = r.Silences(ctx, now); err != nil {
		return nil, nil, err
	}
	chains, hidden := f.Split(chains, now)
	return chains, hidden, nil
}

// hideLostTime moves hidden losses of a summary to in.Hidden. Losses have no severity.
func hideLostTime(f *mute.Filter, now time.Time, in *explain.LostInput) {
	f.Least = 0
	at := map[string]int{} // index in Hidden, by chain
	in.Losses = slices.DeleteFunc(in.Losses, func(x query.Loss) bool {
		_, hidden := f.Split([]tick.Chain{{ID: x.Chain, Rule: x.Rule, PID: x.PID, Lost: x.Lost, Culprits: []tick.Culprit{{What: x.Culprit}}}}, now)
		if len(hidden) == 0 {
			return false
		}
		n, known := at[x.Chain]
		if !known {
			at[x.Chain] = len(in.Hidden)
			in.Hidden = append(in.Hidden, hidden[0])
			return true
		}
		in.Hidden[n].Chain.Lost += x.Lost
		return true
	})
}

// chainFilter returns the filter for a trace.
func (e *Env) chainFilter(c *config.Config) *chainFilter {
	return &chainFilter{Filter: filter(c), path: c.DB, log: e.logger(c.Debug)}
}

// chainFilter hides chains in a trace's ticks. It reads the silences again for each tick, so that
// changes take effect at once. There are usually no rows or one.
type chainFilter struct {
	mute.Filter
	anew atomic.Pointer[mute.Filter] // filter after a reload; nil: no change
	path string                      // path of the database
	log  *slog.Logger
	db   *query.Reader // nil: not yet open
}

// hide implements the session's Hide. It closes the database after the last tick, so that the
// writer, as the last user, can remove the write-ahead log.
func (h *chainFilter) hide(now time.Time, final bool, chains []tick.Chain) (shown []tick.Chain, hidden []tick.Hidden) {
	if f := h.anew.Swap(nil); f != nil {
		h.Filter = *f
	}
	if err := h.read(now); err != nil {
		h.log.Debug("cannot read the list of silences", "error", err)
	}
	shown, hidden = h.Split(chains, now)
	if final {
		_ = h.close() // opened read-only
	}
	return shown, hidden
}

func (h *chainFilter) read(now time.Time) (err error) {
	if h.db == nil {
		if !isThere(h.path) {
			return nil
		}
		// An old database is copied, once. With a deadline, a large one would be copied at each tick.
		if h.db, err = query.Open(context.Background(), h.path); err != nil {
			h.db = nil
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	all, err := h.db.Silences(ctx, now)
	if err != nil {
		return errors.Join(err, h.close())
	}
	h.Silences = all
	return nil
}

func (h *chainFilter) close() error {
	if h.db == nil {
		return nil
	}
	err := h.db.Close()
	h.db = nil
	return err
}
