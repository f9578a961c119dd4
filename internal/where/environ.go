package where

import (
	"strconv"
	"strings"
	"unicode"

	"ingero/internal/tick"
)

// launchers are the variables with which launchers of distributed programs tell a
// process its place. All are taken of one launcher: the first that gives a rank.
var launchers = []struct{ rank, localRank, size, localSize, node string }{
	{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"}, // torchrun, and who speaks its language
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", ""},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", ""},
	{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", ""}, // MPICH, Intel MPI
	{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "", "SLURM_NODEID"},
}

// jobs are the variables that name a batch job, with that of its step.
var jobs = []struct{ job, step string }{
	{"SLURM_JOB_ID", "SLURM_STEP_ID"}, {"SLURM_JOBID", "SLURM_STEPID"}, {"PBS_JOBID", ""}, {"LSB_JOBID", ""},
}

// steps are the steps that Slurm numbers from the end, by the names of their groups.
var steps = map[string]string{"4294967292": "extern", "4294967291": "batch", "4294967290": "interactive"}

// Others that are read.
const (
	masterAddr, masterPort = "MASTER_ADDR", "MASTER_PORT"
	nodeRank               = "NODE_RANK"
	devices                = "CUDA_VISIBLE_DEVICES"
)

// Variables are the names of all variables that are read.
func Variables() []string {
	out := []string{masterAddr, masterPort, nodeRank, devices}
	for _, l := range launchers {
		out = append(out, l.rank, l.localRank, l.size, l.localSize, l.node)
	}
	for _, j := range jobs {
		out = append(out, j.job, j.step)
	}
	n := 0
	for _, name := range out {
		if name != "" {
			out[n] = name
			n++
		}
	}
	return out[:n]
}

// Environ adds what variables tell. What control groups said of a job stays.
func Environ(vars map[string]string, w *tick.Where) {
	for _, l := range launchers {
		if w.Rank = number(vars[l.rank]); w.Rank == 0 {
			continue
		}
		w.LocalRank, w.WorldSize = number(vars[l.localRank]), number(vars[l.size])
		w.LocalSize, w.NodeRank = number(vars[l.localSize]), number(vars[l.node])
		break
	}
	if w.NodeRank == 0 {
		w.NodeRank = number(vars[nodeRank])
	}
	for _, j := range jobs {
		if w.Job != "" {
			break
		}
		if w.Job = word(vars[j.job]); w.Job != "" {
			w.Step = word(vars[j.step])
			if name, ok := steps[w.Step]; ok {
				w.Step = name
			}
		}
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

// number reads a number, unknown where there is none.
func number(s string) tick.Number {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
	if err != nil {
		return 0
	}
	return tick.Numbered(uint32(n))
}

// word is a value that can be a name or a list of names, "" for what cannot.
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
