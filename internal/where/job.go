package where

import (
	"path"
	"strings"

	"ingero/internal/tick"
)

// Program names the program that a process runs, for which its number, its arguments and
// where it lies do not matter: the script where an interpreter runs one, "train.py".
func Program(p *tick.Process) string {
	words := strings.Fields(p.Cmdline)
	if len(words) == 0 {
		return p.Comm
	}
	name := path.Base(words[0])
	if !interpreter(name) {
		return name
	}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-m" && i+1 < len(words):
			return words[i+1]
		case w == "-c":
			return name
		case !strings.HasPrefix(w, "-"):
			return path.Base(w)
		}
	}
	return name
}

func interpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return name == "python" || name == "pypy" || name == "bash" || name == "sh"
}

// Job names what a process is a part of, the same for all ranks and workers of it: its
// batch job, pod, container or unit, or its program where it runs in none.
func Job(p *tick.Process) string {
	switch w := &p.Where; {
	case w.Job != "":
		return "job " + w.Job
	case w.Pod != "" && w.Namespace != "":
		return "pod " + w.Namespace + "/" + w.Pod
	case w.Pod != "":
		return "pod " + w.Pod
	case w.ContainerName != "":
		return "container " + w.ContainerName
	case w.Container != "":
		return "container " + w.Container[:min(12, len(w.Container))]
	case strings.HasSuffix(w.Unit, ".service"):
		return w.Unit
	}
	return Program(p)
}
