package where

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// Program returns the name of a process's program, without its number, arguments and directory: the
// script of an interpreter ("train.py"), the program of a launcher, or the title that a process
// sets for itself.
func Program(p *tick.Process) string {
	name, _ := program(p)
	return name
}

// program also reports whether the process is a worker that an interpreter's own machinery started,
// which belongs to its parent's program.
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

// isTitle reports whether a word begins a title that a process set for itself instead of its
// command line: "VLLM::Worker_TP0", "ray::train()", "postgres: writer".
func isTitle(word string) bool {
	return !strings.ContainsAny(word, "/=") && (strings.Contains(word, "::") || strings.HasSuffix(word, ":"))
}

// family is the part of a title that all processes of a program share.
func family(title string) string {
	of, _, _ := strings.Cut(title, "::")
	return of
}

// maxParents bounds how far the parents of a process are followed.
const maxParents = 16

// Programs names the programs of a set of processes. Workers of an interpreter's machinery get
// their parent's.
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

// Job names the job of a process, the same for all its ranks and workers: the batch job, the ranks'
// meeting place, the pod, container or unit, or else the program.
func Job(p *tick.Process) string {
	if name := placed(p); name != "" {
		return name
	}
	return named(p, Program(p))
}

// named names a job after its program, and the address at which its ranks meet, which distinguishes
// jobs of the same program.
func named(p *tick.Process, program string) string {
	name := family(program)
	if p.Master != "" && ranks(&p.Where) {
		name += " (" + p.Master + ")"
	}
	return name
}

// ranks reports whether a process is one of several ranks.
func ranks(w *tick.Where) bool {
	size, known := w.WorldSize.Value()
	return known && size > 1
}

// placed names a process's job by where it runs, "" if that is unknown.
func placed(p *tick.Process) string {
	switch w := &p.Where; {
	case w.Job != "":
		return "job " + slash(w.Namespace) + w.Job
	case w.Pod != "" && ranks(w) && w.Master != "" && !w.MeetLocally():
		// Its ranks run in several pods, and meet in one.
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

// Jobs names the jobs of a machine's processes. A process belongs to its parent's job. If two jobs
// without a name of their own run the same program at the same time, each gets the number of its
// first process.
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

// together reports whether two processes existed at the same time.
func together(a, b *tick.Process) bool {
	return (a.Ended.IsZero() || a.Ended.After(b.Started)) && (b.Ended.IsZero() || b.Ended.After(a.Started))
}
