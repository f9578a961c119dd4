package cli

import (
	"embed"
	"slices"
	"time"

	"ingero/internal/explain"
)

// scenario is what a demonstration shows. Its recording, demo/NAME.ingero, was made by
// this command, as root: `make demo-recordings`.
type scenario struct {
	name    string
	aliases []string
	what    string // in words, behind "Live: "
	shows   string // what the report says, in a sentence
	program []string
	beside  []string // a program on the same GPU, for the second third of the time
	hog     hog
	spins   bool          // the job waits for the GPU on a CPU, and not asleep
	length  string        // how long it runs, if nothing is said
	least   time.Duration // how long it must run
	onGPU   []string      // arguments of demo/gpu.py, which does the same on a GPU
	rule    string        // that has the gravest chain; empty: there is none
	culprit string        // which that names; empty: it is not asked
	detail  explain.Detail
	extra   bool // not one of those that are shown when nothing is said
}

// hog is a program that takes the job's CPU in the second third of the time, with so many
// threads (0: there is none); they rest after each time of work, unless that is 0.
type hog struct {
	threads    int
	work, rest time.Duration
}

//go:embed demo
var demoFiles embed.FS

// scenarios are what can be demonstrated, in the order in which all are.
var scenarios = []scenario{
	{name: "incident", what: "a training loop on a simulated GPU, and a hog on its CPU",
		shows:   "The GPU waits while programs that have nothing to do with the job take its CPU.",
		program: []string{"train", "--launches", "4", "--kernel-us", "500", "--cpu-us", "300"}, hog: hog{threads: 4}, spins: true,
		onGPU: []string{"--kernel-us", "500", "--launches", "4"}, length: "12s", least: 6 * time.Second,
		rule: "cpu-taken", culprit: hogName, detail: explain.Shares},
	{name: "cold-start", what: "the first steps of a job on a simulated GPU",
		shows:   "The first calls load code, and take a hundred times as long as later ones.",
		program: []string{"loop", "--fault", "cold-start", "--delay-us", "1200000", "--launches", "5", "--kernel-us", "800"},
		onGPU:   []string{"--kernel-us", "800", "--launches", "5", "--cold"}, length: "8s", least: 5 * time.Second,
		rule: "cold-start", detail: explain.Shares},
	{name: "memcpy-bottleneck", what: "a job on a simulated GPU that waits for its copies",
		shows:   "Copies take more than a third of the time, and a tool that shows a busy GPU does not say so.",
		program: []string{"loop", "--fault", "copy-heavy", "--launches", "5", "--kernel-us", "800", "--batch", "16777216"},
		onGPU:   []string{"--kernel-us", "800", "--launches", "5", "--batch", "67108864", "--wait-for-copies"}, length: "8s", least: 5 * time.Second,
		rule: "copy-heavy", detail: explain.Shares},
	{name: "periodic-spike", what: "a job whose allocator goes to the driver every 200 batches",
		shows:   "Every 200 batches the allocator goes to the driver, and the GPU has nothing to do meanwhile.",
		program: []string{"loop", "--fault", "alloc-slow", "--every", "200", "--delay-us", "100000", "--launches", "5", "--kernel-us", "800"},
		onGPU:   []string{"--kernel-us", "500", "--launches", "4", "--alloc-every", "200"}, length: "12s", least: 6 * time.Second,
		rule: "alloc-slow", detail: explain.Shares},
	{name: "cpu-contention", what: "a training loop on a simulated GPU, and a neighbour that wakes up now and then",
		shows:   "A neighbour that uses little of a CPU costs the job whenever it wakes up.",
		program: []string{"train", "--launches", "6", "--kernel-us", "500"}, hog: hog{threads: 2, work: 400 * time.Millisecond, rest: 400 * time.Millisecond}, spins: true,
		onGPU: []string{"--kernel-us", "500", "--launches", "6"}, length: "12s", least: 6 * time.Second,
		rule: "cpu-taken", culprit: hogName, detail: explain.Shares},
	{name: "gpu-steal", aliases: []string{"gpu-contention", "contention"}, what: "a training loop, and another program on its simulated GPU",
		shows:   "Kernels take longer while another process has the GPU, and the job itself does nothing wrong.",
		program: []string{"train", "--launches", "10", "--kernel-us", "500"}, beside: []string{"loop", "--launches", "10", "--kernel-us", "500"},
		onGPU: []string{"--kernel-us", "500", "--launches", "10"}, length: "12s", least: 6 * time.Second,
		rule: "gpu-shared", culprit: "loop", detail: explain.Shares},
	{name: "train", what: "a training loop on a simulated GPU", shows: "Nothing is wrong, and the report says so.",
		program: []string{"train", "--launches", "20", "--kernel-us", "500"}, spins: true,
		onGPU: []string{"--kernel-us", "500", "--launches", "20"}, length: "5s", least: time.Second, detail: explain.Tables, extra: true},
}

// recording returns what the scenario's recording has.
func (s *scenario) recording() ([]byte, error) {
	return demoFiles.ReadFile("demo/" + s.name + ".ingero")
}

// called says whether the scenario goes by a name.
func (s *scenario) called(name string) bool {
	return s.name == name || slices.Contains(s.aliases, name)
}
