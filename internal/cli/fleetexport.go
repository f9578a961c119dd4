package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ingero/internal/config"
	"ingero/internal/fleet"
	"ingero/internal/query"
	"ingero/internal/store/maintain"
)

// readOrGather opens the configured database or, with --nodes, a temporary database with all
// recordings of those nodes. close closes the database and removes temporary files.
func (e *Env) readOrGather(ctx context.Context, c *config.Config) (r *query.Reader, close func() error, err error) {
	if !queriesFleet(c) {
		r, err := e.read(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
	g, err := e.gather(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer g.Close()
	dir, err := os.MkdirTemp("", "ingero-nodes-")
	if err != nil {
		return nil, nil, err
	}
	if r, err = g.copies(ctx, dir); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, func() error { return errors.Join(r.Close(), os.RemoveAll(dir)) }, nil
}

// copies copies the nodes' databases to dir and merges them there.
func (g *nodeAnswers) copies(ctx context.Context, dir string) (*query.Reader, error) {
	var paths []string
	problems, err := g.Copy(ctx, func(m *fleet.Machine) (io.WriteCloser, error) {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", len(paths)))
		paths = append(paths, path)
		g.e.note("Copying the recordings of %s", m.Name)
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	})
	g.add(problems)
	if err != nil {
		return nil, err
	}
	var readers []*query.Reader
	var sources []maintain.Source
	defer func() {
		for _, r := range readers {
			_ = r.Close() // a copy, opened read-only
		}
	}()
	for i, m := range g.Machines() {
		if len(paths) <= i || failedOf(problems, m.Name) {
			continue
		}
		r, err := query.Open(ctx, paths[i])
		if room := (*query.RoomError)(nil); errors.As(err, &room) || err != nil && ctx.Err() != nil {
			return nil, err // not the node's fault
		}
		if err != nil {
			g.add([]fleet.Problem{{Node: m.Name, What: "sent a reply that is not a database", Do: "check that the node runs this version of ingero", Err: err}})
			continue
		}
		readers, sources = append(readers, r), append(sources, r.Source())
	}
	if len(sources) == 0 {
		return nil, g.noAnswer()
	}
	all := filepath.Join(dir, "all.db")
	if _, err := maintain.Merge(ctx, all, nil, sources); err != nil {
		return nil, err
	}
	g.printWarnings()
	return query.Open(ctx, all)
}

func failedOf(problems []fleet.Problem, name string) bool {
	for i := range problems {
		if problems[i].Node == name {
			return true
		}
	}
	return false
}
