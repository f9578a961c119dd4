package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// advice is what the user can do about a loss, by its rule and its root.
type advice struct {
	rule     string
	relation tick.Relation // "": any relation
	did      tick.Activity // "": any activity
	alone    bool          // no second advice with it
	fix      string        // WHO is replaced by the culprits' names, PROCESS and THREAD by the first one's IDs
}

const (
	writeLess      = "write checkpoints less often, in the background (torch.distributed.checkpoint.async_save, or copy to host memory and save from a thread), or to another disk; omit fsync if a lost checkpoint can be made again"
	whatItWaitsFor = `ingero query "SELECT reason, sum(duration_ns) FROM waits WHERE pid = PROCESS AND tid = THREAD AND again = 0 AND timestamp BETWEEN SINCE AND UNTIL GROUP BY 1" shows its waits`
	whatHolderDoes = "py-spy dump --pid PROCESS shows what the holder does"
	readPages      = "read the file ahead (madvise MADV_WILLNEED, posix_fadvise, or read it once at start), because its pages were not in memory; leave memory for the page cache (free -h, memory.max)"
)

// advices are searched in order: the first matching row applies. The last row of each rule always
// matches.
var advices = []advice{
	{"input-wait", tick.RelationWorker, tick.ActivityCrowd, true, "make the workers' job cheaper (decode once and store the result, smaller images, decode on the GPU), or give the job more CPUs; more workers do not help, because they use all its CPUs already"},
	{"input-wait", "", tick.ActivitySleep, false, "find out why the worker sleeps (a retry, a rate limit, time.sleep); prefetch_factor hides short sleeps only"},
	{"input-wait", "", "", false, "add data loader workers (num_workers) while CPUs are free, raise prefetch_factor if batches are uneven, or make preparation cheaper (decode once and store the result, or decode on the GPU)"},

	{"disk-wait", "", tick.ActivityWrite, false, writeLess},
	{"disk-wait", "", tick.ActivityPage, false, readPages},
	{"disk-wait", tick.RelationWorker, "", false, "pack small files into large ones that are read in order (WebDataset, Parquet, LMDB); keep them on a local disk or in the page cache; raise num_workers and prefetch_factor to have more reads in flight"},
	{"disk-wait", "", "", false, "read ahead in other threads or processes (data loader num_workers, prefetch); pack small files into large ones; keep the data in the page cache or on a faster disk"},

	{"peer-slow", tick.RelationWorker, "", false, "keep a copy of the data on a local disk, request more at a time (num_workers, prefetch_factor, parallel requests), or move the store closer; the data loader workers wait for the network"},
	{"peer-slow", tick.RelationRank, "", false, "WHO is late: give all ranks the same amount of work (sampler, sequence lengths), and each rank its own CPUs"},
	{"peer-slow", "", "", false, "request data ahead (prefetch) or in parallel, cache the replies, or move the service closer"},

	{"lock-wait", "", tick.ActivityHold, true, "let the holder keep the lock for less time (shorter transactions, no other work meanwhile), or take it in a thread that the steps do not wait for; in SQLite, readers go on with PRAGMA journal_mode=WAL; sudo lslocks shows who holds which lock; " + whatHolderDoes},
	{"lock-wait", tick.RelationWorker, "", false, "find the lock that the workers share (one file, one queue, one connection), and give each worker its own; " + whatItWaitsFor},
	{"lock-wait", "", "", false, "find out what WHO does meanwhile: py-spy dump --pid PROCESS shows its Python code; " + whatItWaitsFor},
}

// adviceFor returns the row for a root, or nil if the rule has none.
func adviceFor(rule string, r tick.Root) *advice {
	for i := range advices {
		a := &advices[i]
		if a.rule == rule && (a.relation == "" || a.relation == r.Whose) && (a.did == "" || a.did == r.Did) {
			return a
		}
	}
	return nil
}

// rootShare is the loss of one root in a chain.
type rootShare struct {
	tick.Root
	lost int64
}

// rootsOf returns the roots with at least a quarter of a chain's loss, the largest first.
func rootsOf(c *tick.Chain) (out []rootShare) {
	var all int64
	for i := range c.Culprits {
		x := &c.Culprits[i]
		all += int64(x.Lost)
		at := slices.IndexFunc(out, func(o rootShare) bool { return o.Root == x.Root })
		if at < 0 {
			at, out = len(out), append(out, rootShare{Root: x.Root})
		}
		out[at].lost += int64(x.Lost)
	}
	slices.SortStableFunc(out, func(a, b rootShare) int { return cmp.Compare(b.lost, a.lost) })
	for len(out) > 1 && 4*out[len(out)-1].lost < all {
		out = out[:len(out)-1]
	}
	if len(out) == 0 {
		out = append(out, rootShare{})
	}
	return out
}

// fixRoot returns the advice for the roots of a loss, at most two.
func fixRoot(c *tick.Chain, _ *victim) string {
	var rows []*advice
	for _, r := range rootsOf(c) {
		a := adviceFor(c.Rule, r.Root)
		switch {
		case a == nil || slices.Contains(rows, a):
		case a.alone:
			rows = []*advice{a}
		case len(rows) < 2 && (len(rows) == 0 || !rows[0].alone):
			rows = append(rows, a)
		}
	}
	names := []string{"WHO", culpritNames(c)}
	if i := slices.IndexFunc(c.Culprits, func(x tick.Culprit) bool { return x.Thread.TID != 0 }); i >= 0 {
		t := c.Culprits[i].Thread
		names = append(names, "PROCESS", fmt.Sprint(t.PID), "THREAD", fmt.Sprint(t.TID),
			"SINCE", fmt.Sprint(c.From.UnixNano()), "UNTIL", fmt.Sprint(c.To.UnixNano()))
	} else { // without a thread there is nothing to ask about
		names = append(names, "; "+whatItWaitsFor, "", "; "+whatHolderDoes, "")
	}
	var out []string
	for _, a := range rows {
		out = append(out, strings.NewReplacer(names...).Replace(a.fix))
	}
	return strings.Join(out, "; and ")
}

// crew is a kind of threads or processes of a job, with the setting for their number. Crews with
// prefixes are identified by thread names.
type crew struct {
	name     string
	relation tick.Relation
	inherits bool // the thread has the name of its process: its creator set none
	prefixes []string
	fix      string
}

// crews are searched in order; the last one always matches.
var crews = []crew{
	{"workers", tick.RelationWorker, false, nil, "use fewer workers (data loader num_workers, pool processes), with one thread each (torch.set_num_threads(1))"},
	{"ranks", tick.RelationRank, false, nil, "run fewer ranks on this machine, or give each rank its own CPUs (numactl, Slurm: --cpus-per-task and --cpu-bind=cores)"},
	{"the thread that pins memory", tick.RelationThread, false, []string{"pt_data_pin", "pin_memory"}, "set pin_memory=False if batches are small"},
	{"Python's pools", tick.RelationThread, false, []string{"Thread-", "ThreadPoolExec", "asyncio_"}, "use fewer threads in the pool (max_workers)"},
	{"tokenizers", tick.RelationThread, false, []string{"tokio", "rayon", "tokenizers"}, "set RAYON_NUM_THREADS=N, TOKENIZERS_PARALLELISM=false"},
	{"OpenMP and MKL", tick.RelationThread, true, []string{"omp", "OMP", "mkl", "openblas", "pt_parallel"}, "set OMP_NUM_THREADS=N (and MKL_NUM_THREADS, OPENBLAS_NUM_THREADS), torch.set_num_threads(N)"},
	{"threads", "", false, nil, "use fewer threads (OMP_NUM_THREADS, data loader num_workers)"},
}

// crewOf returns the kind of a culprit.
func crewOf(x *tick.Culprit, v *victim) *crew {
	name := threadName(&x.Thread)
	relation := x.Root.Whose
	if relation == "" && x.Own { // in older recordings
		relation = tick.RelationThread
	}
	for i := range crews {
		w := &crews[i]
		named := len(w.prefixes) == 0 || w.inherits && name == v.name ||
			slices.ContainsFunc(w.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if named && (w.relation == "" || w.relation == relation) {
			return w
		}
	}
	return &crews[len(crews)-1]
}

// fixCrew describes how a job can use fewer threads, by the kinds that took most.
func fixCrew(c *tick.Chain, v *victim) string {
	const most = 2
	var fixes []string
	for i := range c.Culprits {
		x := &c.Culprits[i]
		if x.Thread.TID == 0 {
			continue
		}
		if f := crewOf(x, v).fix; !slices.Contains(fixes, f) && len(fixes) < most {
			fixes = append(fixes, f)
		}
	}
	if len(fixes) == 0 {
		return crews[len(crews)-1].fix
	}
	return strings.Join(fixes, "; ")
}

// ownHeads are headlines for CPUs taken by the job itself.
var ownHeads = map[tick.Relation]string{
	tick.RelationWorker: "CPU taken by its own workers",
	tick.RelationRank:   "CPU taken by other ranks of the job",
}

func headOwn(c *tick.Chain) string {
	if len(c.Culprits) > 0 {
		if s := ownHeads[c.Culprits[0].Root.Whose]; s != "" {
			return s
		}
	}
	return "CPU taken by its own threads"
}

// fixOwn is the advice for threads that take the CPU from others of their job.
func fixOwn(c *tick.Chain, v *victim) string {
	s := fixCrew(c, v) + "; or give it more CPUs"
	if v.cpus > 0 {
		s += ": the machine has " + strconv.Itoa(v.cpus)
	}
	return s
}
