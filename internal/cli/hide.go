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

// filter returns which causes the settings want to be shown.
func filter(c *config.Config) mute.Filter {
	least, _ := tick.ParseSeverity(c.Causes.MinSeverity) // one of the choices
	return mute.Filter{Least: least, Off: c.Causes.RulesOff}
}

// tellable parts chains in those that are to be shown at a time and those that are not, by
// the settings and by what is silenced in the database.
func tellable(ctx context.Context, f mute.Filter, r *query.Reader, now time.Time, chains []tick.Chain) (_ []tick.Chain, _ []tick.Hidden, err error) {
	if f.Silences, err = r.Silences(ctx, now); err != nil {
		return nil, nil, err
	}
	chains, hidden := f.Split(chains, now)
	return chains, hidden, nil
}

// hideLosses takes out of a summary what is not to be shown. Losses have no severity.
func hideLosses(f *mute.Filter, now time.Time, in *explain.LostInput) {
	f.Least = 0
	at := map[string]int{} // in Hidden, by chain
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

// hidden returns what leaves out of a trace's ticks what is not to be shown.
func (e *Env) hidden(c *config.Config) *hider {
	return &hider{Filter: filter(c), path: c.DB, log: e.logger(c.Debug)}
}

// hider leaves out of a trace's ticks what is not to be shown. What is silenced it reads
// anew with each of them: that is one row or none, and counts at once.
type hider struct {
	mute.Filter
	anew atomic.Pointer[mute.Filter] // nil: it is as it was
	path string                      // of the database
	log  *slog.Logger
	db   *query.Reader // nil: there is none yet
}

// hide is the session's Hide. After the last tick the database is closed: who records
// leaves it without a write-ahead log once nobody reads it.
func (h *hider) hide(now time.Time, final bool, chains []tick.Chain) (shown []tick.Chain, hidden []tick.Hidden) {
	if f := h.anew.Swap(nil); f != nil {
		h.Filter = *f
	}
	if err := h.read(now); err != nil {
		h.log.Debug("cannot read the list of silences", "error", err)
	}
	shown, hidden = h.Split(chains, now)
	if final {
		_ = h.close() // it was read only
	}
	return shown, hidden
}

func (h *hider) read(now time.Time) (err error) {
	if h.db == nil {
		if !isThere(h.path) {
			return nil
		}
		if h.db, err = query.Open(h.path); err != nil {
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

func (h *hider) close() error {
	if h.db == nil {
		return nil
	}
	err := h.db.Close()
	h.db = nil
	return err
}
