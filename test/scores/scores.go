// Package scores keeps the results of a measurement in a file, one JSON line per run. The file adds
// up the runs of many machines and days: a long measurement can be made in parts, and its results
// outlive the recordings. The measurements of test/incidents and test/real use it.
package scores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Judged says when a run was judged, and by which version. A score embeds it.
type Judged struct {
	Date   string `json:"date"`
	Commit string `json:"commit,omitempty"` // empty: unknown
}

// commit is the commit that this program was built from, with "-dirty" if files differed from it.
// The Makefile sets it: go test records no version, nor does go build in a worktree.
var commit string

// Now returns today's date and the version of this program.
func Now() Judged {
	return Judged{Date: time.Now().UTC().Format(time.DateOnly), Commit: commit}
}

// By returns the date and the version.
func (j Judged) By() Judged { return j }

// Score is the result of a run: a pointer to a struct that embeds [Judged].
type Score[T any] interface {
	By() Judged
	Compare(T) int // orders scores; 0: both are of the same run
}

// Read reads a file of scores in any order; of two of the same run, the later line counts. It
// returns nil if the file does not exist, or its name is empty.
func Read[T Score[T]](t testing.TB, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var x T
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatalf("%s: %v: %s", file, err, line)
		}
		all = Put(all, x)
	}
	return all
}

// Has reports whether the list has a score of the same run.
func Has[T Score[T]](all []T, x T) bool {
	return slices.ContainsFunc(all, func(old T) bool { return old.Compare(x) == 0 })
}

// Put adds a score to a sorted list, in place of an earlier one of the same run.
func Put[T Score[T]](all []T, x T) []T {
	at, found := slices.BinarySearchFunc(all, x, T.Compare)
	if found {
		all[at] = x
		return all
	}
	return slices.Insert(all, at, x)
}

// Add adds a score to a file, in place of an earlier one of the same run. The file is replaced
// at once, so a program that is killed leaves all earlier scores in it.
func Add[T Score[T]](t testing.TB, file string, x T) {
	t.Helper()
	var text []byte
	for _, x := range Put(Read[T](t, file), x) {
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	part := file + ".part"
	err := os.WriteFile(part, text, 0o644)
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Versions formats the commits that judged the scores, each with its number of runs and its dates.
func Versions[T Score[T]](all []T) string {
	type version struct {
		runs        int
		first, last string
	}
	by, commits := map[string]*version{}, []string{}
	for _, x := range all {
		j := x.By()
		v := by[j.Commit]
		if v == nil {
			v = &version{first: j.Date}
			by[j.Commit], commits = v, append(commits, j.Commit)
		}
		v.runs, v.first, v.last = v.runs+1, min(v.first, j.Date), max(v.last, j.Date)
	}
	slices.SortFunc(commits, func(a, b string) int { return strings.Compare(by[a].first+a, by[b].first+b) })
	var out []string
	for _, c := range commits {
		v := by[c]
		when, name := v.first, c
		if v.last != v.first {
			when += " to " + v.last
		}
		if c == "" {
			name = "unknown commit"
		}
		out = append(out, fmt.Sprintf("%s: %d (%s)", name, v.runs, when))
	}
	return strings.Join(out, ", ")
}
