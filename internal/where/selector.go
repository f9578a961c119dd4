package where

import (
	"strings"

	"ingero/internal/tick"
)

// Selector selects processes that match all of its fields. A field may have several alternatives,
// separated by commas. The zero value selects all processes.
type Selector struct {
	Pod       string // name or id
	Namespace string
	Container string // id, prefix of an id, or name
	Cgroup    string // part of the path
	Job       string // "123", or with its step "123.0"
}

// leastID is the minimum length of a container id's prefix.
const leastID = 6

// questions are the fields, with the names of their flags.
var questions = []struct {
	name string
	of   func(*Selector) string
	fits func(value, cgroup string, w *tick.Where) bool
}{
	{"pod", func(s *Selector) string { return s.Pod },
		func(v, _ string, w *tick.Where) bool { return v == w.Pod || v == w.PodUID }},
	{"namespace", func(s *Selector) string { return s.Namespace },
		func(v, _ string, w *tick.Where) bool { return v == w.Namespace }},
	{"container", func(s *Selector) string { return s.Container },
		func(v, _ string, w *tick.Where) bool {
			return v == w.Container || v == w.ContainerName || len(v) >= leastID && strings.HasPrefix(w.Container, v)
		}},
	{"cgroup", func(s *Selector) string { return s.Cgroup },
		func(v, cgroup string, _ *tick.Where) bool { return strings.Contains(cgroup, v) }},
	{"job", func(s *Selector) string { return s.Job },
		func(v, _ string, w *tick.Where) bool { return v == w.Job || v == w.Job+"."+w.Step }},
}

// Match reports whether a process is selected.
func (s *Selector) Match(cgroup string, w *tick.Where) bool {
	for _, q := range questions {
		if list := q.of(s); list != "" && !anyOf(list, func(v string) bool { return q.fits(v, cgroup, w) }) {
			return false
		}
	}
	return true
}

func anyOf(list string, fits func(string) bool) bool {
	for v := range strings.SplitSeq(list, ",") {
		if v = strings.TrimSpace(v); v != "" && fits(v) {
			return true
		}
	}
	return false
}

// String describes the selection, "" for all processes: "pod train-0, namespace ml".
func (s *Selector) String() string {
	var parts []string
	for _, q := range questions {
		if v := q.of(s); v != "" {
			parts = append(parts, q.name+" "+v)
		}
	}
	return strings.Join(parts, ", ")
}

// NeedsPods reports whether matching requires Kubernetes: control group names have the id of a pod,
// but not its name.
func (s *Selector) NeedsPods() bool {
	return s.Namespace != "" || s.Pod != "" && !anyOf(s.Pod, isUID.MatchString)
}

var isUID = re(`^` + podUID + `$`)

// Text says briefly where a process runs, "" if only its cgroup is known: "pod ml/train-0
// (trainer), job 123, rank 3 of 8".
func Text(w *tick.Where) string {
	var parts []string
	switch {
	case w.Pod != "":
		s := "pod " + w.Pod
		if w.Namespace != "" {
			s = "pod " + w.Namespace + "/" + w.Pod
		}
		if w.ContainerName != "" {
			s += " (" + w.ContainerName + ")"
		}
		parts = append(parts, s)
	case w.Container != "":
		id := w.Container
		if w.Runtime != lxc && w.Runtime != nspawn {
			id = id[:min(12, len(id))]
		}
		s := strings.TrimSpace(w.Runtime+" container ") + " " + id
		if w.PodUID != "" {
			s += " of pod " + w.PodUID
		}
		parts = append(parts, s)
	case w.PodUID != "":
		parts = append(parts, "pod "+w.PodUID)
	}
	if w.Job != "" {
		s := "job " + w.Job
		if w.Step != "" {
			s += "." + w.Step
		}
		parts = append(parts, s)
	}
	if rank := w.Rank.String(); rank != "" {
		s := "rank " + rank
		if size := w.WorldSize.String(); size != "" {
			s += " of " + size
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
