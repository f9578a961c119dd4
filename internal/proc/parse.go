package proc

import (
	"bytes"
	"errors"
	"strings"
)

var errFormat = errors.New("unexpected format")

// maxNesting is the maximum depth of PID namespaces (MAX_PID_NS_LEVEL of the kernel, and the
// first).
const maxNesting = 33

// status has the used fields of /proc/PID/status.
type status struct {
	uid, gid, tgid, ppid, threads uint32
	seccomp                       uint32
	pids                          [maxNesting]uint32
	npids                         int
	shadowStack                   bool
	kernel, zombie                bool
}

func (s *status) nspids() []uint32 { return append([]uint32(nil), s.pids[:s.npids]...) }

// parseStatus parses /proc/PID/status (fs/proc/array.c).
func parseStatus(b []byte) (status, error) {
	var s status
	seen := 0
	hasMemory := false
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		key, val, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		val = bytes.TrimLeft(val, " \t")
		switch string(key) {
		case "State":
			s.zombie = len(val) > 0 && (val[0] == 'Z' || val[0] == 'X')
		case "Tgid":
			s.tgid, ok = first32(val)
		case "PPid":
			s.ppid, ok = first32(val)
			seen++
		case "Uid":
			s.uid, ok = first32(val)
			seen++
		case "Gid":
			s.gid, ok = first32(val)
		case "NSpid":
			ok = s.setPIDs(val)
		case "VmSize":
			hasMemory = true
		case "Kthread":
			s.kernel = len(val) > 0 && val[0] == '1'
		case "Threads":
			s.threads, ok = first32(val)
			seen++
		case "Seccomp":
			s.seccomp, ok = first32(val)
		case "x86_Thread_features":
			s.shadowStack = hasWord(val, "shstk")
		}
		if !ok {
			return status{}, errFormat
		}
	}
	if seen != 3 {
		return status{}, errFormat
	}
	// Before Linux 6.8 there is no Kthread line. A live process without memory is a kernel thread.
	s.kernel = s.kernel || !hasMemory && !s.zombie
	return s, nil
}

func (s *status) setPIDs(val []byte) bool {
	s.npids = 0
	for len(val) > 0 {
		n, rest, ok := number(val)
		if !ok || n > 1<<31 || s.npids == maxNesting {
			return false
		}
		s.pids[s.npids] = uint32(n)
		s.npids++
		val = bytes.TrimLeft(rest, " \t")
	}
	return s.npids > 0
}

// stat has the used fields of /proc/PID/stat.
type stat struct {
	comm   []byte // aliases the input; escaped
	start  uint64 // ticks since boot
	ppid   uint32
	kernel bool
	ending bool // it executes nothing of its program any more
	ended  bool // a zombie: ended and not reaped
}

// Flags of a task, include/linux/sched.h.
const (
	pfExiting = 0x00000004 // PF_EXITING: set before the exit is traced, and never cleared
	pfKthread = 0x00200000 // PF_KTHREAD
)

// parseStat parses /proc/PID/stat. The command may contain spaces and parentheses, so the last
// parenthesis ends it.
func parseStat(b []byte) (stat, error) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return stat{}, errFormat
	}
	s := stat{comm: b[open+1 : shut]}
	rest := b[shut+1:]
	for field := 3; ; field++ { // numbered as in proc(5)
		rest = bytes.TrimLeft(rest, " ")
		word, after, _ := bytes.Cut(rest, []byte(" "))
		if len(word) == 0 {
			return stat{}, errFormat
		}
		switch field {
		case 3:
			s.ended = word[0] == 'Z' || word[0] == 'X'
		case 4:
			ppid, ok := first32(word)
			if !ok {
				return stat{}, errFormat
			}
			s.ppid = ppid
		case 9: // flags
			n, _, ok := number(word)
			if !ok {
				return stat{}, errFormat
			}
			s.kernel, s.ending = n&pfKthread != 0, n&pfExiting != 0
		case 22: // starttime
			n, _, ok := number(word)
			if !ok || n > 1<<62/uint64(userTick) {
				return stat{}, errFormat
			}
			s.start = n
			return s, nil
		}
		rest = after
	}
}

// cgroupOrder is the preference among hierarchies: the unified one, then the one with the CPU
// quota, and so on. The first path that is not the root wins.
var cgroupOrder = []string{"", "cpu", "cpuacct", "memory", "pids", "name=systemd"}

// parseCgroup returns the preferred path of /proc/PID/cgroup, "/" if there is none.
func parseCgroup(b []byte) string {
	for _, paths := range cgroupsByRank(b)[:len(cgroupOrder)] {
		if len(paths) > 0 {
			return paths[0]
		}
	}
	return "/"
}

func hasController(list []byte, name string) bool {
	if len(list) == 0 || name == "" {
		return len(list) == 0 && name == ""
	}
	for len(list) > 0 {
		var word []byte
		word, list, _ = bytes.Cut(list, []byte(","))
		if string(word) == name {
			return true
		}
	}
	return false
}

// unescape undoes the kernel's escapes in a command name: \n and \\ only.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	return strings.NewReplacer(`\n`, "\n", `\\`, `\`).Replace(string(b))
}

// cutLine splits b after its first line, and drops the newline.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// number parses a decimal number. rest begins at the first other byte.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if n > (1<<64-1-9)/10 {
			return 0, b, false
		}
		n = n*10 + uint64(b[i]-'0')
	}
	return n, b[i:], i > 0
}

func first32(b []byte) (uint32, bool) {
	n, _, ok := number(b)
	return uint32(n), ok && n <= 1<<32-1
}

// hexNumber parses a hexadecimal number. rest begins at the first other byte.
func hexNumber(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		var d byte
		switch c := b[i]; {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c >= 'a' && c <= 'f':
			d = c - 'a' + 10
		default:
			return n, b[i:], i > 0
		}
		if i == 16 {
			return 0, b, false
		}
		n = n<<4 | uint64(d)
	}
	return n, b[i:], i > 0
}

func hasWord(b []byte, word string) bool {
	for len(b) > 0 {
		var w []byte
		w, b, _ = bytes.Cut(b, []byte(" "))
		if string(bytes.TrimSpace(w)) == word {
			return true
		}
	}
	return false
}
