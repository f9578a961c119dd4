package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/wire"
)

// query runs a statement. A page of another site cannot send application/json without a preflight
// request, which the server does not answer.
func (a *request) query() (any, error) {
	if kind, _, err := mime.ParseMediaType(a.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the statement must be sent as application/json", `send {"sql": "SELECT 1"}`}
	}
	var s wire.Statement
	in := json.NewDecoder(a.r.Body)
	in.DisallowUnknownFields()
	err := in.Decode(&s)
	if err == nil {
		if _, more := in.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("the body has data after the JSON value")
		}
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", tooLong.Limit), ""}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "the request cannot be read: " + err.Error(), `send {"sql": "SELECT 1"}`}
	case s.Limit < 0 || s.Limit > maxLimit:
		return nil, wrong("limit", strconv.Itoa(s.Limit), fmt.Sprintf("from 1 to %d; 0 means the maximum", maxLimit))
	case s.TimeoutMS < 0 || s.TimeoutMS > requestTimeout.Milliseconds():
		return nil, wrong("timeout_ms", strconv.FormatInt(s.TimeoutMS, 10), fmt.Sprintf("from 1 to %d; 0 means 10000", requestTimeout.Milliseconds()))
	}
	res, err := a.db.SQL(a.ctx, s.SQL, query.SQLLimits{Rows: s.Limit, Time: time.Duration(s.TimeoutMS) * time.Millisecond})
	if err != nil {
		return nil, err
	}
	out := wire.Rows{Node: a.Node, Columns: res.Columns, Rows: make([]wire.Row, len(res.Rows)), Cut: res.Cut,
		Notes: append([]string{}, explain.CoverageNotes(&res.Coverage)...), TookMS: res.Took.Seconds() * 1e3}
	for i, row := range res.Rows {
		out.Rows[i] = row
	}
	return out, nil
}

// maxBackup bounds the database to send, in bytes: the copy takes as much disk space.
const maxBackup = 1 << 30

// sendBackup creates a temporary backup and sends it, one at a time.
func (a *request) sendBackup() (err error) {
	if n := a.db.Size(); n > maxBackup {
		return &refusal{http.StatusRequestEntityTooLarge, "the database has " + explain.Bytes(n) + ", more than the server sends",
			"run ingero backup on that machine; ingero merge combines such files"}
	}
	if !a.copying.TryLock() {
		return &refusal{http.StatusServiceUnavailable, "the server is sending the database to another client", "retry later"}
	}
	defer a.copying.Unlock()
	dir, err := os.MkdirTemp("", "ingero-backup-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // else it stays among the temporary files
	path := filepath.Join(dir, "copy")
	if _, err := a.db.Backup(a.ctx, path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if end, ok := a.ctx.Deadline(); ok { // a longer deadline, but not unlimited
		_ = http.NewResponseController(a.w).SetWriteDeadline(end)
	}
	a.w.Header().Set("Content-Type", "application/octet-stream")
	a.w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	_, _ = io.Copy(a.w, f) // the client may be gone
	return nil
}
