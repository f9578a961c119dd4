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

// State is the state derived from a process's calls.
type State struct {
	PID       uint32       `json:"pid"`
	Memory    *Memory      `json:"memory,omitempty"` // absent: no allocations
	Held      []Held       `json:"held"`
	Devices   []Device     `json:"devices,omitempty"`
	Streams   List[Stream] `json:"streams"`
	Graphs    List[Graph]  `json:"graphs"`
	Comms     List[Comm]   `json:"comms"`
	Copies    []Copy       `json:"copies"`
	Errors    []CallError  `json:"errors"`
	Untracked uint64       `json:"untracked,omitempty"`
}

// List has the first elements of a long list.
type List[T any] struct {
	Count int `json:"count"`
	First []T `json:"first"`
}

// Held is the memory that a process holds of one kind, on one device.
type Held struct {
	Kind    string `json:"kind"`
	Device  *int   `json:"device,omitempty"`
	Bytes   uint64 `json:"bytes"`
	Peak    uint64 `json:"peak_bytes"`
	Count   uint64 `json:"count"`
	Unsized uint64 `json:"unsized,omitempty"`
}

// Device is a device ordinal of a process with the UUID of its GPU.
type Device struct {
	Device int    `json:"device"`
	UUID   string `json:"uuid"`
}

// Stream is a CUDA stream.
type Stream struct {
	Stream      string    `json:"stream"`
	Device      *int      `json:"device,omitempty"`
	Launches    uint64    `json:"launches"`
	Outstanding uint64    `json:"outstanding"`
	Copies      uint64    `json:"copies"`
	Bytes       uint64    `json:"bytes"`
	Captures    uint64    `json:"captures"`
	Last        time.Time `json:"last,omitzero"`
}

// Graph is a CUDA graph, with its capture, instantiation and launches.
type Graph struct {
	Exec             string    `json:"exec,omitempty"`
	Graph            string    `json:"graph,omitempty"`
	Device           *int      `json:"device,omitempty"`
	Captured         time.Time `json:"captured,omitzero"`
	CaptureNS        int64     `json:"capture_ns,omitempty"`
	CaptureTID       uint32    `json:"capture_tid,omitempty"`
	CaptureLaunches  uint64    `json:"capture_launches,omitempty"`
	Cold             bool      `json:"cold,omitempty"`
	CaptureFailed    bool      `json:"capture_failed,omitempty"`
	Instantiated     time.Time `json:"instantiated,omitzero"`
	InstantiateNS    int64     `json:"instantiate_ns,omitempty"`
	InstantiateFails uint64    `json:"instantiate_fails,omitempty"`
	Launches         uint64    `json:"launches"`
	LastLaunch       time.Time `json:"last_launch,omitzero"`
	Updates          uint64    `json:"updates"`
	UpdateFails      uint64    `json:"update_fails"`
	Uploads          uint64    `json:"uploads"`
	Destroyed        time.Time `json:"destroyed,omitzero"`
}

// Comm is an NCCL communicator of a process.
type Comm struct {
	ID       string    `json:"id,omitempty"`
	Rank     *int32    `json:"rank,omitempty"`
	Ranks    uint32    `json:"ranks,omitempty"`
	Device   *int      `json:"device,omitempty"`
	State    string    `json:"state"`
	Began    time.Time `json:"began,omitzero"`
	InitNS   int64     `json:"init_ns,omitempty"`
	Sequence uint64    `json:"sequence"`
	Failed   uint64    `json:"failed"`
	LastOp   string    `json:"last_op,omitempty"`
	Last     time.Time `json:"last,omitzero"`
	Elements uint64    `json:"last_elements,omitempty"`
	Bytes    uint64    `json:"last_bytes,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
}

// Copy sums up copies of one direction.
type Copy struct {
	Direction string `json:"direction"`
	Host      string `json:"host,omitempty"`
	Count     uint64 `json:"count"`
	Bytes     uint64 `json:"bytes"`
	CallNS    int64  `json:"call_ns"`
	Estimated bool   `json:"estimated,omitempty"`
}

// CallError counts the calls of one operation that failed with one error.
type CallError struct {
	Op    string    `json:"op"`
	Error string    `json:"error"`
	Code  int32     `json:"code"`
	Count uint64    `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}
