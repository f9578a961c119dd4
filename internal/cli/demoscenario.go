package cli

import (
	"embed"
	"slices"
	"time"

	"ingero/internal/explain"
)

// scenario is one demonstration. Its recording, demo/NAME.ingero, was made by this command,
// as root: `make demo-recordings`.
type scenario struct {
	name    string
	aliases []string
	what    string // description, printed after "Live: "
	shows   string // the report's finding, one sentence
	program []string
	beside  []string // program on the same GPU during the second third
	hog     hog
	spins   bool          // the job spins on a CPU while it waits for the GPU
	length  string        // default duration
	least   time.Duration // minimum duration
	onGPU   []string      // arguments of demo/gpu.py for the same work on a GPU
	rule    string        // expected rule of the most severe chain; empty: no chain
	culprit string        // expected culprit; empty: not checked
	detail  explain.Detail
	extra   bool // shown only by name
}

// hog is a program that takes the job's CPU in the second third. threads is 0 for no hog. The
// threads pause for rest after each burst of work; with work 0, they run continuously.
type hog struct {
	threads    int
	work, rest time.Duration
}

//go:embed demo
var demoFiles embed.FS

// scenarios lists the scenarios in the order in which demo shows them.
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
		shows:   "Copies take more than a third of the time. A tool that shows a busy GPU does not show this.",
		program: []string{"loop", "--fault", "copy-heavy", "--launches", "5", "--kernel-us", "800", "--batch", "16777216"},
		onGPU:   []string{"--kernel-us", "800", "--launches", "5", "--batch", "67108864", "--wait-for-copies"}, length: "8s", least: 5 * time.Second,
		rule: "copy-heavy", detail: explain.Shares},
	{name: "periodic-spike", what: "a job whose allocator calls the driver every 200 batches",
		shows:   "Every 200 batches, the allocator calls the driver, and the GPU is idle meanwhile.",
		program: []string{"loop", "--fault", "alloc-slow", "--every", "200", "--delay-us", "100000", "--launches", "5", "--kernel-us", "800"},
		onGPU:   []string{"--kernel-us", "500", "--launches", "4", "--alloc-every", "200"}, length: "12s", least: 6 * time.Second,
		rule: "alloc-slow", detail: explain.Shares},
	{name: "cpu-contention", what: "a training loop on a simulated GPU, and a neighbour that uses its CPU in bursts",
		shows:   "A neighbour uses only part of a CPU, but delays the job in each of its bursts.",
		program: []string{"train", "--launches", "6", "--kernel-us", "500"}, hog: hog{threads: 2, work: 400 * time.Millisecond, rest: 400 * time.Millisecond}, spins: true,
		onGPU: []string{"--kernel-us", "500", "--launches", "6"}, length: "12s", least: 6 * time.Second,
		rule: "cpu-taken", culprit: hogName, detail: explain.Shares},
	{name: "gpu-steal", aliases: []string{"gpu-contention", "contention"}, what: "a training loop, and another program on its simulated GPU",
		shows:   "Kernels take longer while another process uses the GPU. Nothing is wrong in the job itself.",
		program: []string{"train", "--launches", "10", "--kernel-us", "500"}, beside: []string{"loop", "--launches", "10", "--kernel-us", "500"},
		onGPU: []string{"--kernel-us", "500", "--launches", "10"}, length: "12s", least: 6 * time.Second,
		rule: "gpu-shared", culprit: "loop", detail: explain.Shares},
	{name: "train", what: "a training loop on a simulated GPU", shows: "Nothing is wrong, and the report says so.",
		program: []string{"train", "--launches", "20", "--kernel-us", "500"}, spins: true,
		onGPU: []string{"--kernel-us", "500", "--launches", "20"}, length: "5s", least: time.Second, detail: explain.Tables, extra: true},
}

// recording returns the scenario's embedded recording.
func (s *scenario) recording() ([]byte, error) {
	return demoFiles.ReadFile("demo/" + s.name + ".ingero")
}

// called reports whether name is the scenario's name or an alias.
func (s *scenario) called(name string) bool {
	return s.name == name || slices.Contains(s.aliases, name)
}
