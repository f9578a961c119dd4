package query

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Intervals of the checks of a statement's resources.
const (
	memoryEvery = 4 * time.Millisecond
	diskEvery   = 10 // memory checks per disk check
)

// watch cancels a statement that makes the process grow by more than memory, or that fills
// temporary files with more than disk, both in bytes. This build of SQLite does not count its
// allocations, so watch checks the whole process. The returned function ends it.
func watch(ctx context.Context, cancel context.CancelCauseFunc, memory, disk int64) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	before, spilled := resident(), temporary()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(memoryEvery)
		defer t.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if resident()-before > memory {
				cancel(&SQLError{What: fmt.Sprintf("the statement needs more than %d MB of memory", memory>>20), Do: narrow})
			}
			if n%diskEvery == 0 && temporary()-spilled > disk {
				cancel(&SQLError{What: fmt.Sprintf("the statement sorts more than %d MB", disk>>20), Do: narrow})
			}
		}
	}()
	return func() {
		stop()
		<-ended
	}
}

const narrow = "limit the statement by timestamp, op or pid, or query op_stats or timeline, which need no sorting"

// resident returns the process's resident memory in bytes, 0 if unknown.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// temporary returns the size in bytes of SQLite's temporary files, which are deleted and visible
// only as open files.
func temporary() int64 {
	const open = "/proc/self/fd"
	dir, err := os.Open(open)
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	var n int64
	for _, name := range names {
		path := filepath.Join(open, name)
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(filepath.Base(to), "etilqs_") {
			continue
		}
		if s, err := os.Stat(path); err == nil {
			n += s.Size()
		}
	}
	return n
}
