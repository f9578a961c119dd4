package where

import (
	"strings"

	"ingero/internal/tick"
)

// Selector says which processes are wanted: those that all of its fields fit. Each may
// name several, with commas between; the zero value wants all.
type Selector struct {
	Pod       string // name or id
	Namespace string
	Container string // id or the beginning of one, or name
	Cgroup    string // part of the path
	Job       string // "123", or with its step "123.0"
}

// leastID is how much of a container's id will do.
const leastID = 6

// questions are the fields by the names of their flags.
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

// Match tells whether a process is wanted.
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

// String says in words who is wanted, "" for everybody: "pod train-0, namespace ml".
func (s *Selector) String() string {
	var parts []string
	for _, q := range questions {
		if v := q.of(s); v != "" {
			parts = append(parts, q.name+" "+v)
		}
	}
	return strings.Join(parts, ", ")
}

// NeedsPods tells whether only Kubernetes can say who is wanted: the id of a pod is in
// the name of its control group, what it is called is not.
func (s *Selector) NeedsPods() bool {
	return s.Namespace != "" || s.Pod != "" && !anyOf(s.Pod, isUID.MatchString)
}

var isUID = re(`^` + podUID + `$`)

// Text says in a few words where a process runs, "" where there is nothing to say
// beyond its cgroup: "pod ml/train-0 (trainer), job 123, rank 3 of 8".
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
