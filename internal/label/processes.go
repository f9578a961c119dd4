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
	// namespace.
	thread(pid, tid uint32, inside bool) (uint32, bool)
	// nested returns the number that a process has in its own PID namespace, 0 if that is the
	// tracer's. alive is false if there is no such process.
	nested(pid uint32) (inside uint32, alive bool)
}

// procFS is /proc.
type procFS struct{}

// maxScan bounds the threads that are searched for one of another PID namespace.
const maxScan = 256

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

func (procFS) thread(pid, tid uint32, inside bool) (uint32, bool) {
	if !inside {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid))
		return tid, err == nil
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, false
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(maxScan)
	for _, name := range names {
		if ids := statusOf(fmt.Sprintf("/proc/%d/task/%s/status", pid, name), "NSpid:"); len(ids) > 0 && ids[len(ids)-1] == tid {
			n, err := strconv.ParseUint(name, 10, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
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
