package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ingero/internal/store"
)

// history is the list of typed lines, oldest first.
type history struct {
	lines []string
	file  *os.File
}

// Limits of the history that is read and kept.
const (
	historyBytes = 1 << 20
	historyLines = 1000
)

// open reads the user's history file; Add appends to it.
func (h *history) open(home string, who invoker) (err error) {
	if home == "" {
		return nil
	}
	var owner *store.Owner
	if who.Sudo {
		owner = &store.Owner{UID: who.UID, GID: who.GID}
	}
	f, err := store.OpenFile(filepath.Join(home, ".ingero", "sql_history"), owner)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.file, err = nil, errors.Join(err, f.Close())
		}
	}()
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-historyBytes), historyBytes))
	if err != nil {
		return err
	}
	h.lines = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	h.file = f
	if len(h.lines) <= 2*historyLines && info.Size() <= historyBytes {
		_, err = f.Seek(0, io.SeekEnd)
		return err
	}
	h.lines = h.lines[max(0, len(h.lines)-historyLines):]
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(h.lines, "\n") + "\n")
	return err
}

// Add implements [term.History]. It skips a repetition of the last line.
func (h *history) Add(line string) {
	line = strings.TrimSpace(oneLine(line))
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.file != nil {
		_, _ = h.file.WriteString(line + "\n") // losing history is not an error
	}
}

// Len implements [term.History].
func (h *history) Len() int { return len(h.lines) }

// At implements [term.History].
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

func (h *history) close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}
