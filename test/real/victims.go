package real

// Victim is a real program, its fault, and ingero's expected report.
type Victim struct {
	Name   string
	Script string // file in testdata/victims
	Args   []string
	Env    []string // in addition to every victim's: see Start
	Attach bool     // traced by --pid once it is warm; otherwise from its first call on
	Beside string   // script of another program, which runs first; none: empty
	Rules  []string // any of them is right; none: no cause may be reported
	With   []string // rules that explain a part of the loss beside one of Rules
	Line   string   // Python function with the fault, whose line must be reported; empty: none
	Small  bool     // its recording fits a small tape
}

// hog is the program that takes the CPUs during the fault.
const hog = "hog.py"

// slow makes a kernel take 40 ms: the length of a step that runs one kernel.
var slow = []string{"INGERO_SIM_KERNEL_NS=40000000"}

// quick makes a kernel take 0.2 ms: the host takes most of a step.
var quick = []string{"INGERO_SIM_KERNEL_NS=200000"}

// shared lets jobs take turns on the GPU.
var shared = []string{"INGERO_SIM_SHARE=/srv/gpu"}

// passive makes OpenMP's threads block until the next loop. By default they spin for 10 ms. On two
// CPUs, the threads of a healthy job then keep each other from a CPU.
var passive = []string{"OMP_WAIT_POLICY=PASSIVE"}

// oneThread has the settings that torchrun makes for each rank. The ranks' kernels take 20 ms,
// since at each exchange four to eight threads of two ranks and gloo are runnable: with 4 ms they
// waited for a CPU for a tenth of the time.
var oneThread = []string{"OMP_NUM_THREADS=1", "INGERO_SIM_KERNEL_NS=20000000"}

// Rules that are right for more than one victim.
var (
	ofInput = []string{"input-wait"}
	ofDisk  = []string{"disk-wait"}
	ofLock  = []string{"lock-wait"}
	ofGIL   = []string{"gil-wait"}
	ofPeer  = []string{"peer-slow", "input-wait", "lock-wait"} // another process of the job is late
	ofCode  = []string{"own-code"}
	ofCPU   = []string{"cpu-taken"}
	ofTool  = []string{"tool-call"}  // a program that the job started
	ofGPU   = []string{"gpu-shared"} // another job
	nobody  []string                 // a healthy victim
)

// Victims lists all rows of the lab: faults of each program, and the healthy program.
var Victims = []Victim{
	{Name: "loader: fork, computes", Script: "loader.py", Args: []string{"--fault", "compute"}, Rules: ofInput, Line: "compute", Attach: true},
	{Name: "loader: spawn, computes", Script: "loader.py", Args: []string{"--method", "spawn", "--fault", "compute"}, Rules: ofInput, Line: "compute"},
	{Name: "loader: pinned, persistent, pure Python", Script: "loader.py", Rules: ofInput, Line: "python",
		Args: []string{"--pin", "--persistent", "--batches", "100", "--fault", "python"}},
	{Name: "loader: two workers, computes", Script: "loader.py", Args: []string{"--workers", "2", "--ms", "14", "--fault", "compute"}, Rules: ofInput, Line: "compute"},
	{Name: "loader: fork, O_DIRECT", Script: "loader.py", Args: []string{"--fault", "direct"}, Rules: ofDisk, With: ofInput, Line: "direct"},
	{Name: "loader: spawn, pages not in the cache", Script: "loader.py", Args: []string{"--method", "spawn", "--fault", "evicted"}, Rules: ofDisk, With: ofInput, Line: "evicted", Attach: true},
	{Name: "loader: pinned, persistent, O_DIRECT", Script: "loader.py", Rules: ofDisk, With: ofInput, Line: "direct",
		Args: []string{"--pin", "--persistent", "--batches", "100", "--fault", "direct"}},
	{Name: "loader: fork, sleeps", Script: "loader.py", Args: []string{"--fault", "sleep"}, Rules: ofInput, Line: "sleep"},
	{Name: "loader: spawn, pinned, sleeps", Script: "loader.py", Args: []string{"--method", "spawn", "--pin", "--fault", "sleep"}, Rules: ofInput, Line: "sleep", Attach: true},
	{Name: "loader: no workers, O_DIRECT", Script: "loader.py", Args: []string{"--workers", "0", "--fault", "direct", "--ms", "4"}, Rules: ofDisk, Line: "direct"},
	{Name: "loader: no workers, a mapped file", Script: "loader.py", Args: []string{"--workers", "0", "--fault", "mapped", "--ms", "4"}, Rules: ofDisk, With: ofCode, Line: "mapped", Attach: true},
	{Name: "loader: no workers, computes", Script: "loader.py", Args: []string{"--workers", "0", "--fault", "compute", "--ms", "4"}, Rules: ofCode, Line: "compute", Attach: true},
	{Name: "loader: no workers, sleeps", Script: "loader.py", Args: []string{"--workers", "0", "--fault", "sleep", "--ms", "4"}, Rules: ofCode, Line: "sleep"},
	{Name: "loader: fork", Script: "loader.py", Attach: true, Rules: nobody},
	{Name: "loader: spawn, two workers, pinned, persistent", Script: "loader.py", Rules: nobody,
		Args: []string{"--method", "spawn", "--workers", "2", "--pin", "--persistent", "--batches", "200"}},
	{Name: "loader: no workers", Script: "loader.py", Args: []string{"--workers", "0"}, Rules: nobody},

	{Name: "loader, numba: fork, computes", Script: "loader.py", Env: slow, Args: []string{"--consumer", "numba", "--fault", "compute"}, Rules: ofInput, Line: "compute", Attach: true, Small: true},
	{Name: "loader, numba: fork, O_DIRECT", Script: "loader.py", Env: slow, Args: []string{"--consumer", "numba", "--fault", "direct"}, Rules: ofDisk, With: ofInput, Line: "direct", Attach: true, Small: true},
	{Name: "loader, numba: spawn, sleeps", Script: "loader.py", Env: slow, Args: []string{"--consumer", "numba", "--method", "spawn", "--fault", "sleep"}, Rules: ofInput, Line: "sleep", Attach: true, Small: true},
	{Name: "loader, numba: fork", Script: "loader.py", Env: slow, Args: []string{"--consumer", "numba"}, Rules: nobody, Attach: true, Small: true},

	{Name: "ddp: a rank computes", Script: "ddp.py", Env: oneThread, Args: []string{"--fault", "compute"}, Rules: ofPeer, With: ofCode, Line: "compute"}, // the late rank's own
	{Name: "ddp: a rank sleeps", Script: "ddp.py", Env: oneThread, Args: []string{"--fault", "sleep"}, Rules: ofPeer, With: ofCode, Line: "sleep", Attach: true},
	{Name: "ddp: two ranks", Script: "ddp.py", Env: oneThread, Rules: nobody},

	{Name: "share: the producer computes", Script: "share.py", Args: []string{"--fault", "compute"}, Rules: ofInput, Line: "compute"},
	{Name: "share: the producer sleeps", Script: "share.py", Args: []string{"--method", "spawn", "--fault", "sleep"}, Rules: ofInput, Line: "sleep"},
	{Name: "share: another process holds a lock", Script: "share.py", Args: []string{"--hold", "compute"}, Rules: ofLock, Line: "compute", Attach: true},
	{Name: "share: tensors from another process", Script: "share.py", Rules: nobody, Attach: true},

	{Name: "checkpoint: waits for the disk", Script: "checkpoint.py", Args: []string{"--sync"}, Rules: ofDisk, Line: "save"},
	{Name: "checkpoint: does not wait", Script: "checkpoint.py", Rules: nobody},

	{Name: "graph: captured anew", Script: "graph.py", Args: []string{"--recapture"}, Rules: []string{"graph-recapture"}},
	{Name: "graph: another program takes the CPUs", Script: "graph.py", Beside: hog, Rules: ofCPU, Attach: true},
	{Name: "graph: replayed", Script: "graph.py", Rules: nobody, Attach: true},

	{Name: "omp: too many threads", Script: "omp.py", Env: passive, Args: []string{"--threads", "64"}, Rules: []string{"own-threads"}},
	{Name: "omp: another program takes the CPUs", Script: "omp.py", Env: passive, Beside: hog, Rules: ofCPU, Attach: true},
	{Name: "omp: as many threads as CPUs", Script: "omp.py", Env: passive, Rules: nobody},

	{Name: "pool: a thread computes", Script: "pool.py", Env: slow, Args: []string{"--fault", "churn"}, Rules: ofLock, Line: "prepare", Attach: true, Small: true},
	{Name: "pool: a thread reads", Script: "pool.py", Env: slow, Args: []string{"--fault", "direct"}, Rules: ofDisk, Line: "direct", Attach: true, Small: true},
	{Name: "pool: a thread sleeps", Script: "pool.py", Env: slow, Args: []string{"--fault", "sleep"}, Rules: ofLock, Line: "sleep"},
	{Name: "pool: threads that keep up", Script: "pool.py", Env: slow, Rules: nobody, Attach: true, Small: true},

	{Name: "gil: a thread of pure Python", Script: "gil.py", Args: []string{"--fault", "python"}, Rules: ofGIL, Line: "python"},
	{Name: "gil: a thread that sleeps", Script: "gil.py", Rules: nobody},

	{Name: "server: a thread sleeps with the lock", Script: "server.py", Args: []string{"--hold", "sleep"}, Rules: ofLock, Line: "sleep", Attach: true},
	{Name: "server: a backend sleeps", Script: "server.py", Args: []string{"--backend", "sleep"}, Rules: ofPeer, Line: "sleep"},
	{Name: "server: a backend computes", Script: "server.py", Args: []string{"--backend", "compute"}, Rules: ofPeer, Line: "compute", Attach: true},
	{Name: "server: a thread of pure Python", Script: "server.py", Args: []string{"--beside", "python"}, Rules: ofGIL, Line: "python"},
	{Name: "server: two clients", Script: "server.py", Args: []string{"--clients", "2"}, Rules: nobody},

	{Name: "asyncio: the loop sleeps", Script: "aio.py", Args: []string{"--loop", "sleep"}, Rules: ofLock, Line: "sleep"},
	{Name: "asyncio: the loop computes", Script: "aio.py", Args: []string{"--loop", "compute"}, Rules: ofLock, Line: "compute", Attach: true},
	{Name: "asyncio: the executor reads", Script: "aio.py", Args: []string{"--executor", "direct"}, Rules: ofDisk, Line: "direct"},
	{Name: "asyncio: paced", Script: "aio.py", Rules: nobody, Attach: true},

	{Name: "validate: a thread logs, threads save", Script: "validate.py", Rules: nobody},
	{Name: "validate: the report of the validation takes long", Script: "validate.py", Args: []string{"--fault", "python"}, Rules: ofCode, Line: "python"},
	{Name: "validate: another job on the GPU", Script: "validate.py", Env: shared, Beside: "otherjob.py", Rules: ofGPU, Attach: true},
	{Name: "gan: the generator trains in some steps", Script: "gan.py", Rules: nobody, Attach: true},
	{Name: "accumulate: a model becomes deeper", Script: "accumulate.py", Env: quick, Rules: nobody},
	{Name: "sweep: each trial has another model", Script: "sweep.py", Rules: nobody, Attach: true},
	{Name: "poll: requests come in bursts", Script: "poll.py", Beside: "submit.py", Rules: nobody, Attach: true},

	{Name: "results: another program holds the lock file", Script: "results.py", Beside: "holdfile.py", Rules: ofLock, Line: "add", Attach: true},
	{Name: "database: another program has a transaction", Script: "database.py", Beside: "annotate.py", Rules: ofLock, Line: "samples", Attach: true},
	{Name: "collect: the garbage collector reads many objects", Script: "collect.py", Rules: ofCode, Line: "refill", Attach: true},
	{Name: "shell: a command takes long", Script: "shell.py", Args: []string{"--fault"}, Rules: ofTool, Line: "monitor"},
	{Name: "launch: the job sleeps", Script: "launch.py", Rules: ofCode, Line: "sleep", Attach: true,
		Args: []string{"/srv/loader.py", "--workers", "0", "--fault", "sleep", "--ms", "4"}},
}
