package tick

import (
	"path"
	"strconv"
	"strings"
)

// Limit is a limit of a cgroup, as in its file.
type Limit struct {
	Group string // path in its hierarchy
	File  string // on this machine
	Raw   string // "200000 100000" of cpu.max, also for version 1: quota and period in us
}

// LimitKind is the resource that a limit bounds.
type LimitKind uint8

// The kinds.
const (
	LimitCPU LimitKind = iota + 1
	LimitMemory
	LimitCPUs
)

// limitKinds maps file names to kinds.
var limitKinds = map[string]LimitKind{
	"cpu.max": LimitCPU, "cpu.cfs_quota_us": LimitCPU,
	"memory.max": LimitMemory, "memory.high": LimitMemory, "memory.limit_in_bytes": LimitMemory,
	"cpuset.cpus": LimitCPUs,
}

// Kind returns the resource that the limit bounds, or 0.
func (l *Limit) Kind() LimitKind { return limitKinds[path.Base(l.File)] }

// String returns the limit as the object of a [HostSum]; [ParseLimit] parses it.
func (l *Limit) String() string { return l.Raw + " in " + l.Group + " at " + l.File }

// ParseLimit parses the result of String; ok is false for other text.
func ParseLimit(s string) (l Limit, ok bool) {
	at := strings.LastIndex(s, " at /")
	in := strings.Index(s, " in /")
	if in < 0 || at < in {
		return l, false
	}
	l = Limit{Raw: s[:in], Group: s[in+len(" in ") : at], File: s[at+len(" at "):]}
	return l, l.Kind() != 0
}

// CPUs returns the number of CPUs of a quota; 0 if it is none.
func (l *Limit) CPUs() float64 {
	quota, period, _ := strings.Cut(l.Raw, " ")
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if l.Kind() != LimitCPU || err != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// Value describes the limit: "2 CPUs", "32 GiB", "CPUs 0-3".
func (l *Limit) Value() string {
	switch l.Kind() {
	case LimitCPU:
		n := strconv.FormatFloat(l.CPUs(), 'g', 3, 64)
		if n == "1" {
			return n + " CPU"
		}
		return n + " CPUs"
	case LimitMemory:
		n, err := strconv.ParseUint(l.Raw, 10, 64)
		if err != nil {
			return l.Raw
		}
		units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
		x, u := float64(n), 0
		for x >= 1024 && u < len(units)-1 {
			x, u = x/1024, u+1
		}
		return strconv.FormatFloat(x, 'g', 4, 64) + " " + units[u]
	case LimitCPUs:
		if !strings.ContainsAny(l.Raw, "-,") {
			return "CPU " + l.Raw
		}
		return "CPUs " + l.Raw
	}
	return l.Raw
}
