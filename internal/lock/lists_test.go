package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// A list of locks in which the holder was skipped is read again: no holder exists only if two lists
// are equal.
func TestListsAreReadAgain(t *testing.T) {
	p := place(t)
	parent := os.Getppid() // alive, and not this process
	holder := fmt.Sprintf("1: POSIX  ADVISORY  WRITE %d fe:00:99 %d %d\n", parent, p.Mark, p.Mark)
	const some, others = "2: FLOCK  ADVISORY  WRITE 17 fe:00:5 0 EOF\n", "3: FLOCK  ADVISORY  WRITE 18 fe:00:6 0 EOF\n"
	for name, tt := range map[string]struct {
		lists []string // the last one repeats
		want  int
		reads int
	}{
		"at once":                  {[]string{some + holder}, parent, 1},
		"skipped once":             {[]string{some, some + holder}, parent, 2},
		"skipped twice":            {[]string{some, others, holder}, parent, 3},
		"nobody":                   {[]string{some}, 0, 2},
		"nobody, and no locks":     {[]string{""}, 0, 1},
		"nobody, and much goes on": {[]string{some, others, some, others, some, others, some, others, some, others}, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			h, err := p.find(func() (string, error) {
				reads++
				return tt.lists[min(reads, len(tt.lists))-1], nil
			})
			got := 0
			if h != nil {
				got = h.PID
			}
			if err != nil || got != tt.want || reads != tt.reads {
				t.Errorf("holder %d after %d lists, %v; want %d after %d", got, reads, err, tt.want, tt.reads)
			}
		})
	}
	if _, err := p.find(func() (string, error) { return "", fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a list that cannot be read: %v", err)
	}
}
