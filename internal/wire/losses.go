package wire

import "time"

// Losses is the GPU time that was lost in a window, by cause, culprit and job.
type Losses struct {
	From       time.Time         `json:"from,omitzero"`
	To         time.Time         `json:"to,omitzero"`
	Source     string            `json:"source,omitempty"`
	Hidden     []Hidden          `json:"hidden,omitempty"` // excluded from the sums
	Nodes      []string          `json:"nodes"`
	Sessions   int               `json:"sessions"`
	Processes  int               `json:"processes"`
	ObservedNS int64             `json:"observed_gpu_ns"` // of GPUs in use while observed
	LostNS     int64             `json:"lost_gpu_ns"`
	WallNS     int64             `json:"lost_wall_ns"`
	Share      float64           `json:"lost_share"`
	Price      float64           `json:"price_per_gpu_hour,omitempty"`
	Cost       float64           `json:"cost,omitempty"`
	By         map[string][]Loss `json:"by"`
}

// Loss is the loss of one cause, culprit or job. GPU time counts all ranks and their GPUs; the
// wall time of several ranks of a job runs in parallel.
type Loss struct {
	Name       string  `json:"name"`
	LostNS     int64   `json:"lost_gpu_ns"`
	Share      float64 `json:"share"` // of the total loss
	WallNS     int64   `json:"lost_wall_ns"`
	ObservedNS int64   `json:"observed_gpu_ns,omitempty"` // of a job
	Cost       float64 `json:"cost,omitempty"`
}
