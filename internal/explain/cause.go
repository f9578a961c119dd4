package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// victim has the facts about the process that lost time, for the text of a chain.
type victim struct {
	name   string // safe to show
	cgroup string
	where  tick.Where
	cpus   int // of the machine; 0: unknown
}

// causeWords are the words for the chains of a rule: what happened, the culprit and the victim, and
// what the user can do about it.
type causeWords struct {
	head  func(c *tick.Chain) string
	cause func(c *tick.Chain, v *victim) string
	fix   func(c *tick.Chain, v *victim) string
}

// causes are keyed by rule name. To add words for a rule, add a row; a rule without a row is
// reported by its name.
var causes = map[string]causeWords{
	"cpu-taken": {
		head: func(c *tick.Chain) string { return "CPU taken by " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			if len(c.Culprits) > 0 && c.Culprits[0].Path != "" {
				return culprits(c) + " ran on a CPU while the thread that " + v.name + " waited for had no CPU"
			}
			return culprits(c) + " ran" + onCPUs(c) + " while " + v.name + " waited for a CPU"
		},
		fix: fixTaken,
	},
	"cpu-stolen": {
		head: func(*tick.Chain) string { return "CPU taken by the hypervisor" },
		cause: func(c *tick.Chain, v *victim) string {
			return "the hypervisor of this virtual machine took CPU time from " + v.name + onCPUs(c)
		},
		fix: func(*tick.Chain, *victim) string {
			return "use CPUs that are not shared (a dedicated machine type, pinned virtual CPUs); no setting inside this machine helps; vmstat shows stolen time in column st"
		},
	},
	"cpu-throttled": {
		head:  headThrottled,
		cause: causeThrottled,
		fix:   fixThrottled,
	},
	"own-threads": {
		head: headOwn,
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " has more runnable threads than CPUs: " + culprits(c) + " ran" + onCPUs(c) + " instead"
		},
		fix: fixOwn,
	},
	"own-code": {
		head: head("its own code took longer between CUDA calls"),
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " itself " + orWords(whatsAt(c), "computed between its CUDA calls") + ", while the GPU had nothing to do"
		},
		fix: func(c *tick.Chain, _ *victim) string {
			if strings.HasPrefix(whats(c), "slept") {
				return "find out why it sleeps there: a retry, a rate limit, a loop that polls; wait in another thread"
			}
			fix := "move this work off the thread that launches GPU work: more loader processes (DataLoader num_workers, prefetch_factor), a thread for logging and checkpoints, or do it less often"
			if codeAt(c) == "" {
				fix += "; py-spy dump shows where the thread is"
			}
			return fix
		},
	},
	"stopped": {
		head: func(c *tick.Chain) string { return "stopped by " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return culprits(c) + " stopped " + v.name + " (SIGSTOP or a debugger)"
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return fmt.Sprintf("find out why %s stops it; to resume a stopped job: kill -CONT %d", culpritNames(c), c.PID)
		},
	},
	"disk-wait": {
		head: func(c *tick.Chain) string {
			disk, _, _ := strings.Cut(whats(c), ",")
			return "waited for " + orWords(disk, "a disk")
		},
		cause: func(c *tick.Chain, v *victim) string { return v.name + " waited for " + orWords(whatsAt(c), "a disk") },
		fix:   fixRoot,
	},
	"lock-wait": {
		head: func(c *tick.Chain) string {
			return "waited for a lock or thread: " + namesBy(c, func(x *tick.Culprit) string {
				who, _, _ := strings.Cut(culpritName(x), ";")
				return who
			})
		},
		cause: func(c *tick.Chain, v *victim) string { return v.name + " waited for " + culprits(c) },
		fix:   fixWait,
	},
	"driver-slow": {
		head: func(c *tick.Chain) string { return "the GPU driver was slow" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " was blocked in the kernel: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return fixCall(c.Op) + "; keep the driver loaded: nvidia-smi -pm 1"
		},
	},
	"call-slow": {
		head: func(c *tick.Chain) string { return opName(c.Op) + " took longer than usual" },
		cause: func(c *tick.Chain, v *victim) string {
			return orWords(culprits(c), opName(c.Op)) + " itself took longer; " + v.name + " did not wait for a CPU"
		},
		fix: func(c *tick.Chain, _ *victim) string { return fixCall(c.Op) },
	},
}

// rootCause describes what happened, and the threads through which the victim waited for the
// largest culprit.
func (w *causeWords) rootCause(c *tick.Chain, v *victim) string {
	s := w.cause(c, v)
	if len(c.Culprits) > 0 && c.Culprits[0].Path != "" {
		s += "; " + v.name + " waited for " + clean(c.Culprits[0].Path)
	}
	return s
}

// causeTables have the words for all rules, each rule in one table.
var causeTables = []map[string]causeWords{causes, hostCauses, cudaCauses, gpuCauses}

// wordsFor returns the words for a chain of any rule.
func wordsFor(c *tick.Chain) causeWords {
	for _, table := range causeTables {
		if w, ok := table[c.Rule]; ok {
			return w
		}
	}
	name := strings.ReplaceAll(clean(c.Rule), "-", " ")
	return causeWords{
		head:  func(*tick.Chain) string { return name },
		cause: func(c *tick.Chain, _ *victim) string { return orWords(culprits(c), name) },
		fix:   func(*tick.Chain, *victim) string { return "" },
	}
}

func orWords(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// opName names an operation, or "a step" for 0.
func opName(op events.Op) string {
	if op == 0 {
		return "a step"
	}
	return op.String()
}

// culpritName names a culprit.
func culpritName(c *tick.Culprit) string {
	switch {
	case c.Agent:
		return "ingero itself"
	case c.Thread.TID != 0:
		return threadName(&c.Thread)
	case c.What != "":
		return clean(c.What)
	}
	return "unnamed processes"
}

// culpritNames names the culprits in a few words: "stress-ng", "stress-ng and 2 more".
func culpritNames(c *tick.Chain) string { return namesBy(c, culpritName) }

// quotedNames is culpritNames with program names in quotes, for sentences in which they could be
// read as words.
func quotedNames(c *tick.Chain) string {
	return namesBy(c, func(x *tick.Culprit) string {
		if x.Agent || x.Thread.TID == 0 {
			return culpritName(x)
		}
		return `"` + culpritName(x) + `"`
	})
}

func namesBy(c *tick.Chain, name func(*tick.Culprit) string) string {
	var names []string
	for i := range c.Culprits {
		if n := name(&c.Culprits[i]); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch len(names) {
	case 0:
		return "an unknown process"
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// culprits names the culprits with all known facts: "stress-ng (8821, 8822; started by cron 711;
// /system.slice/cron.service)". Culprits with one name are one group.
func culprits(c *tick.Chain) string {
	const most = 3
	var parts []string
	done := map[string]bool{}
	for i := range c.Culprits {
		first := &c.Culprits[i]
		name := culpritName(first)
		if done[name] {
			continue
		}
		done[name] = true
		if len(done) > most {
			continue
		}
		parts = append(parts, culpritGroup(c, i, name))
	}
	s := strings.Join(parts, ", ")
	if more := len(done) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// culpritGroup describes all culprits with the name of the first.
func culpritGroup(c *tick.Chain, first int, name string) string {
	var ids []uint32
	at, waited := "", ""
	for i := range c.Culprits[first:] {
		x := &c.Culprits[first+i]
		id := x.Thread.PID
		if x.Own {
			id = x.Thread.TID
		}
		if culpritName(x) != name {
			continue
		}
		at, waited = cmp.Or(at, x.At), cmp.Or(waited, x.Waited)
		if x.Thread.TID != 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	x := &c.Culprits[first]
	var facts []string
	if len(ids) > 0 {
		word := ""
		if x.Own {
			word = "thread "
		}
		facts = append(facts, word+numbers(ids))
	}
	if x.Parent != "" {
		facts = append(facts, "started by "+clean(x.Parent))
	}
	if line := clean(x.Cmdline); !x.Own && strings.Contains(line, " ") { // more than its name
		facts = append(facts, "runs "+cut(line, 60))
	}
	switch {
	case x.Own:
	case x.Where != "":
		facts = append(facts, clean(x.Where))
	case x.Cgroup != "" && x.Cgroup != "/":
		facts = append(facts, clean(x.Cgroup))
	}
	if len(facts) > 0 {
		name += " (" + strings.Join(facts, "; ") + ")"
	}
	if x.What != "" && x.Thread.TID != 0 && c.Rule != "stopped" { // for "stopped", the cause has it
		name += ": " + clean(x.What)
	}
	switch {
	case at != "":
		name += ", at " + clean(at)
	case waited != "" && x.What == tick.ChildEnd:
		name += ", at " + clean(waited)
	case waited != "":
		name += "; the job waited at " + clean(waited)
	}
	return name
}

// whats returns the distinct What values of the culprits.
func whats(c *tick.Chain) string {
	var out []string
	for i := range c.Culprits {
		if what := clean(c.Culprits[i].What); what != "" && !slices.Contains(out, what) {
			out = append(out, what)
		}
	}
	return strings.Join(out[:min(len(out), 3)], "; ")
}

// whatsAt is whats, each with the place where the culprit was waited for, if known.
func whatsAt(c *tick.Chain) string {
	var whats, places []string
	for i := range c.Culprits {
		x := &c.Culprits[i]
		at := slices.Index(whats, clean(x.What))
		if at < 0 && x.What != "" {
			at, whats, places = len(whats), append(whats, clean(x.What)), append(places, "")
		}
		if place := cmp.Or(x.At, x.Waited); at >= 0 && places[at] == "" && place != "" {
			places[at] = ", at " + clean(place)
		}
	}
	for i := range whats {
		whats[i] += places[i]
	}
	return strings.Join(whats[:min(len(whats), 3)], "; ")
}

// codeAt returns " at " and the place in the code of the first culprit that has one, "" if none has.
func codeAt(c *tick.Chain) string {
	for i := range c.Culprits {
		if at := c.Culprits[i].At; at != "" {
			return " at " + clean(at)
		}
	}
	return ""
}

// byProcess reports whether a culprit is a process rather than a peer known only by its address.
func byProcess(c *tick.Chain) bool {
	return slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return x.Thread.TID != 0 && !x.IsPeer() })
}

// peers names the queried peers: processes of this machine, or addresses.
func peers(c *tick.Chain) string {
	if byProcess(c) {
		return culpritNames(c)
	}
	return orWords(whats(c), tick.APeer)
}

// cpusOf returns the CPUs on which the culprits ran instead of the victim.
func cpusOf(c *tick.Chain) (cpus []uint16) {
	for i := range c.Culprits {
		cpus = append(cpus, c.Culprits[i].CPUs...)
	}
	return slices.Compact(slices.Sorted(slices.Values(cpus)))
}

func onCPUs(c *tick.Chain) string {
	cpus := cpusOf(c)
	switch len(cpus) {
	case 0:
		return ""
	case 1:
		return " on CPU " + cpuList(cpus)
	}
	return " on CPUs " + cpuList(cpus)
}
