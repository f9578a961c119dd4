package incidents

import "fmt"

// Scripts of victims.
const (
	training  = "copy 262144; launch 20 500; sync; cpu 300"
	shortStep = "copy 65536; launch 8 150; sync; cpu 200"
	deepQueue = "launch 30 2000 260; sync"
	paced     = "sleep 15000; copy 65536; launch 8 300; back 16384"
)

var (
	spins  = []string{"INGERO_SIM_SYNC=spin"}
	blocks = []string{"INGERO_SIM_SYNC=block"}
)

// healthyRows are workloads of which nothing may be said.
var healthyRows = []row{
	{name: "training, synchronise spins", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 262144; launch 20 %d; sync; cpu %d", s.between(200, 800), s.between(100, 500)), env: spins}}
	}},
	{name: "training, synchronise blocks", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 262144; launch 20 %d; sync; cpu %d", s.between(200, 800), s.between(100, 500)), env: blocks}}
	}},
}
