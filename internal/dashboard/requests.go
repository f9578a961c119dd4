package dashboard

import (
	"errors"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// requests returns the requests to servers, the steps of their engines, and what inference servers report
// of themselves.
func (a *request) requests() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	sums := explain.Requests{Objective: a.q.Objective}
	var reads tick.Servers
	var cover query.Coverage
	for i := range sessions {
		s := &sessions[i]
		f, _, err := a.filter(s)
		if err != nil {
			return nil, err
		}
		all, err := a.db.Processes(a.ctx, s.ID)
		if err != nil {
			return nil, err
		}
		if err := sums.AddRecorded(a.ctx, a.db, s, f, all); errors.Is(err, query.ErrNoCalls) {
			cover.Missing = append(cover.Missing, s.ID)
		} else if err != nil {
			return nil, err
		}
		list, err := a.db.Inference(a.ctx, f)
		if err != nil {
			return nil, err
		}
		reads.Add(list)
	}
	return wire.Requests{Scope: a.about(), Servers: append([]wire.Server{}, sums.List()...), Engines: append([]wire.EngineSteps{}, sums.Engines.List()...),
		Inference: append([]wire.InferenceServer{}, explain.InferenceServers(reads.List())...),
		Notes:     append([]string{}, explain.CoverageNotes(&cover)...)}, nil
}
