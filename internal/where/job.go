package where

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// Program names the program that a process runs, for which its number, its arguments and
// where it lies do not matter: the script where an interpreter runs one, "train.py"; what a
// launcher starts; the title that a process gives itself.
func Program(p *tick.Process) string {
	name, _ := program(p)
	return name
}

// program tells, too, whether it is a worker that an interpreter's own machinery made, which
// belongs to the program of its parent.
func program(p *tick.Process) (name string, worker bool) {
	words := split(p.Cmdline)
	switch {
	case len(words) == 0:
		return p.Comm, false
	case isTitle(words[0]):
		return strings.TrimSuffix(words[0], ":"), false
	}
	name, worker = command(words, mostLaunchers)
	return cmp.Or(name, p.Comm), worker
}

// isTitle tells whether a word begins a title that a process gives itself, and no command
// line: "VLLM::Worker_TP0", "ray::train()", "postgres: writer".
func isTitle(word string) bool {
	return !strings.ContainsAny(word, "/=") && (strings.Contains(word, "::") || strings.HasSuffix(word, ":"))
}

// family is what the titles of all processes of one program have in common.
func family(title string) string {
	of, _, _ := strings.Cut(title, "::")
	return of
}

// maxParents bounds how far the parents of a process are followed.
const maxParents = 16

// Programs names the programs of processes that are known together: workers that an
// interpreter's own machinery made have their parent's.
func Programs(all []tick.Process) map[uint32]string {
	byPID := index(all)
	out := make(map[uint32]string, len(all))
	for i := range all {
		p := &all[i]
		name, worker := program(p)
		for range maxParents {
			parent := byPID[p.PPID]
			if !worker || parent == nil || parent == p {
				break
			}
			p = parent
			name, worker = program(p)
		}
		out[all[i].PID] = name
	}
	return out
}

func index(all []tick.Process) map[uint32]*tick.Process {
	byPID := make(map[uint32]*tick.Process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	return byPID
}

// Job names what a process is a part of, the same for all ranks and workers of it: its
// batch job, what its ranks have in common, its pod, container or unit, or its program where
// it runs in none.
func Job(p *tick.Process) string {
	if name := placed(p); name != "" {
		return name
	}
	return named(p, Program(p))
}

// named names a job after its program, and after where its ranks meet: another job of the same
// program meets elsewhere.
func named(p *tick.Process, program string) string {
	name := family(program)
	if p.Master != "" && ranks(&p.Where) {
		name += " (" + p.Master + ")"
	}
	return name
}

// ranks tells whether a process is one of several ranks.
func ranks(w *tick.Where) bool {
	size, known := w.WorldSize.Value()
	return known && size > 1
}

// placed names the job that a process is a part of by where it runs, "" where that says
// nothing.
func placed(p *tick.Process) string {
	switch w := &p.Where; {
	case w.Job != "":
		return "job " + slash(w.Namespace) + w.Job
	case w.Pod != "" && ranks(w) && elsewhere(w.Master):
		// Its ranks are in several pods, and meet in one.
		return "pods " + slash(w.Namespace) + w.Master
	case w.Pod != "":
		return "pod " + slash(w.Namespace) + w.Pod
	case w.ContainerName != "":
		return "container " + w.ContainerName
	case w.Container != "":
		return "container " + w.Container[:min(12, len(w.Container))]
	case strings.HasSuffix(w.Unit, ".service"):
		return w.Unit
	}
	return ""
}

func slash(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}

// elsewhere tells whether an address is not that of the process's own pod.
func elsewhere(master string) bool {
	host, _, _ := strings.Cut(master, ":")
	return host != "" && host != "localhost" && !strings.HasPrefix(host, "127.")
}

// Jobs names the jobs of processes of one machine that are known together. A process belongs
// to the job of its parent; of two jobs without a name of their own that run the same program
// at a time, each has the number of its first process.
func Jobs(all []tick.Process) map[uint32]string {
	byPID, programs := index(all), Programs(all)
	roots := map[string][]*tick.Process{}
	rootOf := make(map[uint32]*tick.Process, len(all))
	out := make(map[uint32]string, len(all))
	for i := range all {
		p := &all[i]
		if name := placed(p); name != "" {
			out[p.PID] = name
			continue
		}
		root := p
		for range maxParents {
			parent := byPID[root.PPID]
			if parent == nil || parent == root || placed(parent) != "" {
				break
			}
			root = parent
		}
		name := named(p, programs[root.PID])
		out[p.PID], rootOf[p.PID] = name, root
		if !slices.Contains(roots[name], root) {
			roots[name] = append(roots[name], root)
		}
	}
	for pid, root := range rootOf {
		name := out[pid]
		if !strings.HasSuffix(name, ")") && slices.ContainsFunc(roots[name], func(o *tick.Process) bool { return o != root && together(o, root) }) {
			out[pid] = name + " (" + strconv.FormatUint(uint64(root.PID), 10) + ")"
		}
	}
	return out
}

// together tells whether two processes were there at one time.
func together(a, b *tick.Process) bool {
	return (a.Ended.IsZero() || a.Ended.After(b.Started)) && (b.Ended.IsZero() || b.Ended.After(a.Started))
}
