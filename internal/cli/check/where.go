package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/internal/wire"
)

// launcherNames maps prefixes of rank variables to launchers. The first matching row wins.
var launcherNames = []struct{ prefix, name string }{
	{"HOROVOD_", "Horovod"}, {"OMPI_", "Open MPI"}, {"MV2_", "MVAPICH2"}, {"PALS_", "HPE Cray PALS"}, {"PMI_", "MPICH or Intel MPI"},
	{"JSM_", "jsrun"}, {"FLUX_", "Flux"}, {"PMIX_", "PMIx"}, {"SLURM_", "Slurm (srun)"}, {"RANK", "torchrun or compatible"},
}

// identity reports a process's program, place, rank and job, and the source of each fact.
func (x *subject) identity() []wire.CheckLine {
	ran, err := x.fs.Program(x.p.PID, where.Variables())
	if ran == nil {
		ran = &proc.Program{}
	}
	p := tick.Process{PID: x.p.PID, Comm: x.p.Comm, Cgroup: x.p.Cgroup, Where: where.Cgroups(x.p.Cgroups)}
	fromGroups := p.Where
	where.Environ(ran.Vars, &p.Where)
	p.Cmdline = redact.Safe.Line(ran.Args)
	name := wire.CheckLine{ID: "program", Name: "Program", State: OK, Value: where.Program(&p), Note: "from its command line: " + p.Cmdline}
	if p.Cmdline == "" {
		name.Note = "from the name of its first thread: the process has no command line"
	}
	out := []wire.CheckLine{name}
	if err != nil {
		out = append(out, wire.CheckLine{ID: "environment", Name: "Environment", State: Lack, Value: "cannot read it: " + err.Error(),
			Note: "rank and job are unknown without it", Do: fmt.Sprintf("sudo ingero check --pid %d", x.p.PID)})
	}
	var launcher *wire.CheckLine
	for i := range tick.WhereFields {
		f := &tick.WhereFields[i]
		value := fieldText(f, &p.Where)
		if value == "" || f.Name == "cmdline" {
			continue
		}
		l := wire.CheckLine{ID: f.Name, Name: fieldTitle(f.Name), State: OK, Value: value}
		vars := sources(f, value, ran.Vars, fromGroups)
		switch {
		case len(vars) > 0:
			l.Note = "from " + strings.Join(vars, ", ") + " in its environment"
		default:
			l.Note = "from its cgroup " + groupOf(f, value, x.p.Cgroups)
		}
		out = append(out, l)
		if f.Name == "rank" && len(vars) > 0 {
			launcher = &wire.CheckLine{ID: "launcher", Name: "Launcher", State: OK, Value: launcherOf(vars), Note: "it sets " + strings.Join(vars, ", ")}
		}
	}
	switch {
	case launcher != nil:
		out = append(out, *launcher)
	case err == nil && p.Where.Rank == 0:
		out = append(out, wire.CheckLine{ID: "rank", Name: "Rank", State: OK, Value: "none",
			Note: "its environment has no rank: neither RANK with WORLD_SIZE nor the variables of MPI, Slurm and others"})
	}
	return out
}

func fieldText(f *tick.WhereField, w *tick.Where) string {
	if f.Text != nil {
		return *f.Text(w)
	}
	return f.Number(w).String()
}

// fieldTitle converts a field's name to a title: "local_rank" to "Local rank".
func fieldTitle(name string) string {
	words := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// sources returns the variables that set a field's value: those that each suffice alone, else
// those whose removal changes the value.
func sources(f *tick.WhereField, value string, vars map[string]string, groups tick.Where) (out []string) {
	if fieldText(f, &groups) == value {
		return nil
	}
	names := slices.Sorted(maps.Keys(vars))
	valueOf := func(vars map[string]string) string {
		w := groups
		where.Environ(vars, &w)
		return fieldText(f, &w)
	}
	for _, name := range names {
		if valueOf(map[string]string{name: vars[name]}) == value {
			out = append(out, name)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range names {
		less := maps.Clone(vars)
		delete(less, name)
		if valueOf(less) != value {
			out = append(out, name)
		}
	}
	return out
}

// groupOf returns the path of the cgroup that sets a field's value.
func groupOf(f *tick.WhereField, value string, paths []string) string {
	for _, path := range paths {
		if w := where.Cgroups([]string{path}); fieldText(f, &w) == value {
			return path
		}
	}
	return strings.Join(paths, ", ")
}

func launcherOf(vars []string) string {
	for _, row := range launcherNames {
		if slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, row.prefix) }) {
			return row.name
		}
	}
	return strings.Join(vars, ", ")
}
