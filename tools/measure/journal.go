package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// journal keeps the runs of a measure, one JSON object per line, so that an interrupted measure can
// resume. It ignores runs of other trees.
type journal struct {
	path, tree string
	file       *os.File
	runs       []run
}

func openJournal(path, tree string, fresh bool) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	mode := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if fresh {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, tree: tree, file: f}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r run
		// A truncated line is a run during which the measure was killed.
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Tree == tree {
			j.runs = append(j.runs, r)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// openParts discards the parts of interrupted runs of other trees, or all of them.
func openParts(dir, tree string, fresh bool) error {
	file := filepath.Join(dir, "tree")
	if was, err := os.ReadFile(file); err == nil && string(was) == tree && !fresh {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(tree), 0o644)
}

func (j *journal) has(p planned) bool { return len(j.of([]planned{p})) > 0 }

// of returns the stored runs of these plans.
func (j *journal) of(plans []planned) (list []run) {
	want := map[string]map[int]bool{}
	for _, p := range plans {
		if want[p.name()] == nil {
			want[p.name()] = map[int]bool{}
		}
		want[p.name()][p.Run] = true
	}
	for _, r := range j.runs {
		if want[r.name()][r.Run] {
			list = append(list, r)
		}
	}
	return list
}

func (j *journal) add(r run) error {
	r.Tree = j.tree
	j.runs = append(j.runs, r)
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// finish empties the journal after all runs have been reported.
func (j *journal) finish() error { return j.file.Truncate(0) }

func (j *journal) close() { _ = j.file.Close() }
