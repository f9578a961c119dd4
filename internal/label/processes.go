package label

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"

	"ingero/internal/tick"
)

// processes looks up processes. Numbers are those of the tracer's PID namespace.
type processes interface {
	// process returns a process's start time in clock ticks, and the user whose process it is.
	process(pid uint32) (start uint64, uid uint32, ok bool)
	// thread returns the number of a thread. If inside is set, tid is its number in its own PID
	// namespace, and searched the number of threads that were read to find it; listPart listed ones count
	// as one.
	thread(pid, tid uint32, inside bool) (out uint32, searched int, ok bool)
	// nested returns the number that a process has in its own PID namespace, 0 if that is the
	// tracer's. alive is false if there is no such process.
	nested(pid uint32) (inside uint32, alive bool)
}

// procFS is /proc.
type procFS struct{}

// Bounds of a search for a thread of another PID namespace.
const (
	maxScan  = 4096    // threads that are read
	maxTasks = 1 << 14 // threads that are listed
	listPart = 16      // threads whose listing takes as long as a read
)

// nobody is no user's UID: the user cannot label a process with different UIDs.
const nobody = ^uint32(0)

func (procFS) process(pid uint32) (start uint64, uid uint32, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may have spaces
	if len(f) < 20 {
		return 0, 0, false
	}
	if start, err = strconv.ParseUint(string(f[19]), 10, 64); err != nil {
		return 0, 0, false
	}
	uids := statusOf(fmt.Sprintf("/proc/%d/status", pid), "Uid:")
	if len(uids) < 3 {
		return 0, 0, false
	}
	if uid = uids[0]; uids[1] != uid || uids[2] != uid {
		uid = nobody
	}
	return start, uid, true
}

// thread searches from both ends of the list, oldest and newest: most senders are the first thread or a young one.
func (procFS) thread(pid, tid uint32, inside bool) (out uint32, searched int, ok bool) {
	if !inside {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid))
		return tid, 0, err == nil
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, 0, false
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(maxTasks) // in the order of their start
	searched = len(names) / listPart
	for i := range min(len(names), maxScan) {
		name := names[i/2]
		if i%2 == 1 {
			name = names[len(names)-1-i/2]
		}
		searched++
		if ids := statusOf(fmt.Sprintf("/proc/%d/task/%s/status", pid, name), "NSpid:"); len(ids) > 0 && ids[len(ids)-1] == tid {
			n, err := strconv.ParseUint(name, 10, 32)
			return uint32(n), searched, err == nil
		}
	}
	return 0, searched, false
}

func (procFS) nested(pid uint32) (inside uint32, alive bool) {
	ids := statusOf(fmt.Sprintf("/proc/%d/status", pid), "NSpid:")
	if len(ids) > 1 {
		inside = ids[len(ids)-1]
	}
	return inside, len(ids) > 0
}

// statusOf returns the numbers of a line of a status file.
func statusOf(path, name string) (out []uint32) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		for _, f := range bytes.Fields(rest) {
			n, err := strconv.ParseUint(string(f), 10, 32)
			if err != nil {
				return nil
			}
			out = append(out, uint32(n))
		}
		return out
	}
	return nil
}

// compare orders changes: ends of all labels first, then by thread and key.
func compare(a, b *tick.Label) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Key, b.Key))
}
