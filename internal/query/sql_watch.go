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

// How often it is looked at what a statement takes.
const (
	memoryEvery = 4 * time.Millisecond
	diskEvery   = 10 // looks at the memory
)

// watch ends a statement that makes the process grow by more than memory, or that
// fills temporary files with more than disk, both in bytes. This build of SQLite does
// not count what it allocates, so it is the whole process that is looked at. The
// function that it returns ends it.
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

const narrow = "bound it by timestamp, op or pid, or ask op_stats or timeline, which need no sorting"

// resident returns the bytes of memory that the process has, 0 where that cannot be
// told.
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

// temporary returns the bytes of SQLite's temporary files, which have no name any
// more and are seen among the open ones only.
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
