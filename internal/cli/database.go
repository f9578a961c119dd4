package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"ingero/internal/config"
	"ingero/internal/query"
	"ingero/internal/store"
)

// read opens the configured database, or that of a usual path. It prints the
// path, and which part of the database is missing, to standard error.
func (e *Env) read(ctx context.Context, c *config.Config) (*query.Reader, error) {
	from := ""
	if by := c.From["db"]; by != "" && by != "--db" {
		from = " (" + by + ")"
	}
	return e.readAt(ctx, e.databasePath(c), from)
}

// databasePath returns the path of the configured database, or one of the usual paths.
func (e *Env) databasePath(c *config.Config) string {
	if e.served != "" {
		return e.served
	}
	all, live := c.Databases(), ""
	if len(all) > 1 {
		if s, err := readStatus(e.Lock, time.Now()); err == nil && s.Running {
			live = s.Trace.DB
		}
	}
	return liveOrExisting(all, live)
}

// liveOrExisting returns live, the database of the running trace, if it is one of the paths and can be
// read, else the first path that exists.
func liveOrExisting(paths []string, live string) string {
	if slices.Contains(paths, live) {
		if f, err := os.Open(live); err == nil {
			_ = f.Close()
			return live
		}
	}
	return firstExisting(paths)
}

// readAt opens the database at path; from is a suffix for the message: who named the path.
func (e *Env) readAt(ctx context.Context, path, from string) (r *query.Reader, err error) {
	if isFolder(path) {
		do := "name a file with --db PATH"
		if file := strings.TrimSuffix(path, ".d"); store.LogDir(file) == path && isThere(file) {
			do = "name the file next to that directory: --db " + file
		}
		return nil, &problem{What: path + " is a directory, not a database", Do: do}
	}
	if r, err = query.Open(ctx, path); err != nil {
		return nil, databaseProblem(path, err)
	}
	defer func() {
		if err != nil {
			err, r = errors.Join(err, r.Close()), nil
		}
	}()
	e.note("Reading %s%s", path, from)
	if isThere(store.LogDir(path)) {
		return r, nil
	}
	all, err := r.Sessions(ctx)
	if err != nil {
		return r, databaseProblem(path, err)
	}
	if slices.ContainsFunc(all, func(s query.Session) bool { return s.Pruned && s.Records > 0 }) {
		e.note("Note: %s does not exist, so single calls are missing; ingero backup copies both the file and the directory", store.LogDir(path))
	}
	return r, nil
}

// note prints a message to standard error. It ignores write errors.
func (e *Env) note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Stderr, "%s\n", oneLine(fmt.Sprintf(format, args...)))
}

// firstExisting returns the first path that exists or cannot be checked, or the first path if
// none does.
func firstExisting(paths []string) string {
	for _, p := range paths {
		if isThere(p) {
			return p
		}
	}
	return paths[0]
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func isFolder(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.IsDir()
}

// databaseProblem adds a remedy to the error of a missing or empty database.
func databaseProblem(path string, err error) error {
	if errors.Is(err, query.ErrLost) { // only the SQLite file is missing
		return err
	}
	if errors.Is(err, query.ErrNoDatabase) || errors.Is(err, query.ErrNoSession) {
		return &problem{What: "nothing has been recorded yet in " + path, Do: "record something: sudo ingero trace; or name another database with --db PATH", Err: err}
	}
	return err
}
