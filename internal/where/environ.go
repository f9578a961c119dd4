package where

import (
	"strconv"
	"strings"
	"unicode"

	"ingero/internal/tick"
)

// launcher has the variables by which a launcher passes a process its place in a distributed
// program. Of each list the first variable that is set counts.
type launcher struct {
	rank, localRank, size, localSize, node []string

	local bool // requires a local rank, too
}

// launchers are in order of nearness: the launcher that started the process directly knows more
// than its own launcher. Within a Slurm job an MPI launcher can start torchrun, but not the
// reverse.
var launchers = []launcher{
	// torchrun, DeepSpeed, Accelerate, and others with the same variables
	{names("RANK"), names("LOCAL_RANK"), names("WORLD_SIZE"), names("LOCAL_WORLD_SIZE", "LOCAL_SIZE"), names("GROUP_RANK", "NODE_RANK", "CROSS_RANK"), true},
	{names("HOROVOD_RANK"), names("HOROVOD_LOCAL_RANK"), names("HOROVOD_SIZE"), names("HOROVOD_LOCAL_SIZE"), names("HOROVOD_CROSS_RANK"), true},
	{names("OMPI_COMM_WORLD_RANK"), names("OMPI_COMM_WORLD_LOCAL_RANK"), names("OMPI_COMM_WORLD_SIZE"), names("OMPI_COMM_WORLD_LOCAL_SIZE"), nil, false},
	{names("MV2_COMM_WORLD_RANK"), names("MV2_COMM_WORLD_LOCAL_RANK"), names("MV2_COMM_WORLD_SIZE"), names("MV2_COMM_WORLD_LOCAL_SIZE"), nil, false},
	{names("PALS_RANKID", "PALS_RANK"), names("PALS_LOCAL_RANKID"), names("PMI_SIZE"), names("PALS_LOCAL_SIZE"), names("PALS_NODEID"), false}, // HPE Cray
	{names("PMI_RANK", "PMI_ID"), names("MPI_LOCALRANKID"), names("PMI_SIZE"), names("MPI_LOCALNRANKS"), nil, false},                          // MPICH, Intel MPI
	{names("JSM_NAMESPACE_RANK"), names("JSM_NAMESPACE_LOCAL_RANK"), names("JSM_NAMESPACE_SIZE"), names("JSM_NAMESPACE_LOCAL_SIZE"), nil, false},
	{names("FLUX_TASK_RANK"), names("FLUX_TASK_LOCAL_ID"), names("FLUX_JOB_SIZE"), nil, nil, false},
	{names("PMIX_RANK"), names("OMPI_COMM_WORLD_LOCAL_RANK"), names("OMPI_COMM_WORLD_SIZE", "OMPI_WORLD_SIZE"), names("OMPI_COMM_WORLD_LOCAL_SIZE"), nil, false},
	// set by hand, or by a Kubernetes operator that starts one process per pod
	{names("RANK"), nil, names("WORLD_SIZE"), nil, names("NODE_RANK"), false},
	{names("SLURM_PROCID"), names("SLURM_LOCALID"), names("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"), nil, names("SLURM_NODEID"), false},
}

func names(list ...string) []string { return list }

// jobs are the variables with the id of a batch job, and that of its step.
var jobs = []struct{ job, step string }{
	{"SLURM_JOB_ID", "SLURM_STEP_ID"}, {"SLURM_JOBID", "SLURM_STEPID"}, {"PBS_JOBID", ""}, {"LSB_JOBID", ""}, {"COBALT_JOBID", ""}, {"FLUX_JOB_ID", ""},
}

// steps maps Slurm's reserved step numbers to the names of their groups.
var steps = map[string]string{"4294967292": "extern", "4294967291": "batch", "4294967290": "interactive"}

// Other variables.
const (
	masterAddr, masterPort = "MASTER_ADDR", "MASTER_PORT"
	devices                = "CUDA_VISIBLE_DEVICES"
	slurmNodes             = "SLURM_NNODES"
	// perNode is how many processes per pod a Kubernetes operator lets torchrun start. Then the
	// variables for rank and size are the pod's.
	perNode = "PET_NPROC_PER_NODE"
)

// nodeRanks are the variables with the machine's number, nearest first. The last one belongs to an
// indexed job of Kubernetes, as JobSet makes them.
var nodeRanks = names("NODE_RANK", "PET_NODE_RANK", "JOB_COMPLETION_INDEX")

// Variables returns the names of all variables that the package reads.
func Variables() []string {
	all := append(names(masterAddr, masterPort, devices, slurmNodes, perNode), nodeRanks...)
	for _, l := range launchers {
		for _, list := range [][]string{l.rank, l.localRank, l.size, l.localSize, l.node} {
			all = append(all, list...)
		}
	}
	for _, j := range jobs {
		all = append(all, j.job, j.step)
	}
	seen := map[string]bool{"": true}
	var out []string
	for _, name := range all {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// Environ adds what variables say. A job found in the control groups stays, unless it is Slurm's
// own name for the group and the environment has the job's number.
func Environ(vars map[string]string, w *tick.Where) {
	rank(vars, w)
	if w.NodeRank == 0 {
		w.NodeRank = first(vars, nodeRanks)
	}
	for _, j := range jobs {
		if w.Job != "" && !sluid.MatchString(w.Job) {
			break
		}
		name := word(vars[j.job])
		if name == "" {
			continue
		}
		if w.Job == "" || w.Step == "" {
			w.Step = word(vars[j.step])
			if name, ok := steps[w.Step]; ok {
				w.Step = name
			}
		}
		w.Job = name
	}
	if w.Master = word(vars[masterAddr]); w.Master != "" {
		if port := number(vars[masterPort]); port != 0 {
			w.Master += ":" + port.String()
		}
	}
	if list, set := vars[devices]; set {
		if w.Devices = word(list); strings.TrimSpace(list) == "" {
			w.Devices = "none"
		}
	}
}

// rank takes a process's place from the nearest launcher. Other launchers fill gaps if they agree
// on the rank.
func rank(vars map[string]string, w *tick.Where) {
	w.Rank, w.LocalRank, w.WorldSize, w.LocalSize, w.NodeRank = 0, 0, 0, 0, 0
	if agent(vars) {
		w.NodeRank = first(vars, names("PET_NODE_RANK", "RANK"))
		return
	}
	if lightning(vars, w) {
		return
	}
	for _, l := range launchers {
		x := l.place(vars)
		switch {
		case x.Rank == 0 || l.local && x.LocalRank == 0:
		case w.Rank == 0:
			w.Rank, w.LocalRank, w.WorldSize, w.LocalSize, w.NodeRank = x.Rank, x.LocalRank, x.WorldSize, x.LocalSize, x.NodeRank
		case w.Rank == x.Rank && (w.WorldSize == 0 || x.WorldSize == 0 || w.WorldSize == x.WorldSize):
			for _, f := range [][2]*tick.Number{{&w.LocalRank, &x.LocalRank}, {&w.WorldSize, &x.WorldSize}, {&w.LocalSize, &x.LocalSize}, {&w.NodeRank, &x.NodeRank}} {
				if *f[0] == 0 {
					*f[0] = *f[1]
				}
			}
		}
	}
}

// agent reports whether a process is not a rank but starts several. Its variables are then the
// pod's.
func agent(vars map[string]string) bool {
	n, known := number(vars[perNode]).Value()
	several := vars[perNode] != "" && (!known || n > 1) // "auto" and "gpu" may mean several
	return several && number(vars["LOCAL_RANK"]) == 0
}

// lightning computes the place of a process that has a local rank but no rank, as PyTorch Lightning
// starts them: in a job of one task, Slurm gives all of them rank 0.
func lightning(vars map[string]string, w *tick.Where) bool {
	local, known := number(vars["LOCAL_RANK"]).Value()
	if !known || number(vars["RANK"]) != 0 {
		return false
	}
	for _, l := range launchers {
		if x := l.place(vars); x.Rank != 0 && x.LocalRank == tick.Numbered(local) && x.WorldSize != tick.Numbered(1) {
			return false // the local rank is that launcher's own
		}
	}
	w.LocalRank, w.WorldSize, w.NodeRank = tick.Numbered(local), number(vars["WORLD_SIZE"]), first(vars, nodeRanks)
	w.LocalSize = first(vars, names("LOCAL_WORLD_SIZE", "LOCAL_SIZE"))
	size, sized := w.WorldSize.Value()
	if nodes, ok := number(vars[slurmNodes]).Value(); w.LocalSize == 0 && sized && ok && nodes > 0 && size%nodes == 0 {
		w.LocalSize = tick.Numbered(size / nodes)
	}
	per, sure := w.LocalSize.Value()
	node, numbered := w.NodeRank.Value()
	switch {
	case !numbered && sized && sure && per == size: // there is one machine
		w.Rank = tick.Numbered(local)
	case numbered && (sure || node == 0):
		w.Rank = tick.Numbered(node*per + local)
	}
	if r, ok := w.Rank.Value(); ok && sized && r >= size {
		w.Rank = 0
	}
	return true
}

// place returns the place that one launcher gives. It drops a size that is too small for the rank.
func (l *launcher) place(vars map[string]string) (x tick.Where) {
	x.Rank, x.LocalRank, x.WorldSize = first(vars, l.rank), first(vars, l.localRank), first(vars, l.size)
	x.LocalSize, x.NodeRank = first(vars, l.localSize), first(vars, l.node)
	if x.Rank >= x.WorldSize {
		x.WorldSize = 0
	}
	if x.LocalRank >= x.LocalSize {
		x.LocalSize = 0
	}
	return x
}

// first returns the first variable that has a number, or unknown.
func first(vars map[string]string, names []string) tick.Number {
	for _, name := range names {
		if n := number(vars[name]); n != 0 {
			return n
		}
	}
	return 0
}

// number parses a number, or returns unknown.
func number(s string) tick.Number {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
	if err != nil {
		return 0
	}
	return tick.Numbered(uint32(n))
}

// word returns a value that can be a name or a list of names, "" for any other.
func word(s string) string {
	s = strings.TrimSpace(s)
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.,:/[]", r)
	}
	if len(s) > most || strings.ContainsFunc(s, odd) {
		return ""
	}
	return s
}
