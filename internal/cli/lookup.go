package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/wire"
	"ingero/pkg/events"
)

// addDetails adds the details of a call that the trace does not collect, because it would have to
// look them up every second.
func addDetails(c *wire.StuckCall) {
	switch c.State {
	case "blocked":
		c.Path = fileOf(c)
	case "runnable":
		c.OnCPU = holderOf(c.CPU, c.TID)
	}
}

// threadLives reports whether a thread with this ID exists.
func threadLives(pid, tid uint32) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, tid))
	return err == nil
}

// fileOf returns the path of the file that a call blocks on, "" if unknown. The descriptor may
// have been reused since the trace read it, so the file must have the same kind and device.
func fileOf(c *wire.StuckCall) string {
	if c.FD < 0 {
		return ""
	}
	link := fmt.Sprintf("/proc/%d/fd/%d", c.PID, c.FD)
	path, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil || c.File != "" && kindOf(st.Mode) != c.File {
		return ""
	}
	dev := st.Dev
	if special := st.Mode & unix.S_IFMT; special == unix.S_IFCHR || special == unix.S_IFBLK {
		dev = st.Rdev
	}
	if c.Dev != 0 && c.Dev != unix.Major(dev)<<20|unix.Minor(dev) {
		return ""
	}
	return path
}

// kindOf returns the name of a file's kind in package events.
func kindOf(mode uint32) string {
	kind := events.FileAnon
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		kind = events.FileRegular
	case unix.S_IFDIR:
		kind = events.FileDirectory
	case unix.S_IFIFO:
		kind = events.FilePipe
	case unix.S_IFSOCK:
		kind = events.FileSocket
	case unix.S_IFBLK:
		kind = events.FileBlock
	case unix.S_IFCHR:
		kind = events.FileChar
	}
	return kind.String()
}

// sampled is how long holderOf watches the threads of a CPU.
const sampled = 20 * time.Millisecond

// holderOf returns the thread that has a CPU: of the runnable threads there other than tid,
// the one that runs longest in the next 20 ms. It returns nil if none runs.
func holderOf(cpu uint16, tid uint32) *wire.CPUHolder {
	ready := map[string]uint64{} // by directory: time on-CPU so far, ns
	dirs, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/stat")
		if err != nil || filepath.Base(dir) == strconv.Itoa(int(tid)) {
			continue
		}
		if state, on, ok := stateOf(text); ok && state == "R" && on == int(cpu) {
			ready[dir], _ = ranFor(dir)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	<-time.After(sampled)
	most := slices.MaxFunc(sortedKeys(ready), func(a, b string) int { return cmp.Compare(growth(a, ready[a]), growth(b, ready[b])) })
	if growth(most, ready[most]) == 0 {
		return nil
	}
	h := &wire.CPUHolder{Comm: strings.TrimSpace(readText(most + "/comm"))}
	_, _ = fmt.Sscanf(most, "/proc/%d/task/%d", &h.PID, &h.TID)
	return h
}

// stateOf parses a thread's state and CPU from its stat file.
func stateOf(stat []byte) (state string, cpu int, ok bool) {
	const cpuField = 36 // processor, counted after the name (proc_pid_stat(5): 39th field)
	end := bytes.LastIndexByte(stat, ')')
	f := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(f) <= cpuField {
		return "", 0, false
	}
	cpu, err := strconv.Atoi(f[cpuField])
	return f[0], cpu, err == nil
}

// ranFor returns a thread's on-CPU time in ns.
func ranFor(dir string) (ns uint64, err error) {
	_, err = fmt.Sscan(readText(dir+"/schedstat"), &ns)
	return ns, err
}

func growth(dir string, before uint64) uint64 {
	now, err := ranFor(dir)
	if err != nil {
		return 0
	}
	return now - min(before, now)
}

func readText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func sortedKeys(m map[string]uint64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
