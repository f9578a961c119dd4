package wire

import "time"

// Memory is the account of a process's allocations.
type Memory struct {
	Inexact     []string `json:"inexact,omitempty"` // absent: exact
	GPUBytes    uint64   `json:"gpu_bytes"`
	GPUPeak     uint64   `json:"gpu_peak_bytes"`
	GPUCount    uint64   `json:"gpu_count"`
	HostBytes   uint64   `json:"host_bytes"`
	HostPeak    uint64   `json:"host_peak_bytes"`
	HostCount   uint64   `json:"host_count"`
	Allocs      uint64   `json:"allocs"`
	Frees       uint64   `json:"frees"`
	Released    uint64   `json:"released"`
	DoubleFrees uint64   `json:"double_frees"`
	Unknown     uint64   `json:"unknown_frees"`
	Untracked   uint64   `json:"untracked,omitempty"`
	OOMs        uint64   `json:"ooms"`
	LastOOM     *OOM     `json:"last_oom,omitempty"`
	Growth      *Growth  `json:"growth,omitempty"`
}

// OOM is an allocation that failed for lack of memory.
type OOM struct {
	Time       time.Time `json:"time"`
	Op         string    `json:"op"`
	Bytes      uint64    `json:"bytes,omitempty"`
	Device     *int      `json:"device,omitempty"`
	Held       uint64    `json:"held_bytes"`
	Peak       uint64    `json:"peak_bytes"`
	Fragmented bool      `json:"fragmented"`
	Holes      *float64  `json:"holes,omitempty"`
}

// Growth is the trend of GPU memory, with its confidence interval.
type Growth struct {
	PerMinute float64 `json:"bytes_per_minute"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	OverNS    int64   `json:"over_ns"`
	Leak      bool    `json:"leak"`
}
