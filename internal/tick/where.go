package tick

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Where describes where a process runs, as what, and by which command. Empty fields are unknown or
// absent. It is comparable.
type Where struct {
	Cmdline       string `json:"cmdline,omitempty"`
	Runtime       string `json:"runtime,omitempty"`
	Container     string `json:"container,omitempty"`
	ContainerName string `json:"container_name,omitempty"`
	Pod           string `json:"pod,omitempty"`
	Namespace     string `json:"namespace,omitempty"`
	PodUID        string `json:"pod_uid,omitempty"`
	QoS           string `json:"qos,omitempty"`
	Unit          string `json:"unit,omitempty"`
	Job           string `json:"job,omitempty"`
	Step          string `json:"step,omitempty"`
	Rank          Number `json:"rank,omitzero"`
	LocalRank     Number `json:"local_rank,omitzero"`
	WorldSize     Number `json:"world_size,omitzero"`
	LocalSize     Number `json:"local_world_size,omitzero"`
	NodeRank      Number `json:"node_rank,omitzero"`
	Master        string `json:"master,omitempty"`
	Devices       string `json:"visible_devices,omitempty"`
}

// WhereField is a field of [Where]: its name wherever it is stored or shown, and its accessor. One
// of Text and Number is set.
type WhereField struct {
	Name, About string
	Beside      bool // also stored beside each call of the process: in SQL and exports
	Text        func(*Where) *string
	Number      func(*Where) *Number
}

// WhereFields are the fields in storage order. To add one, add it above and here, and add a column
// by a migration of package store.
var WhereFields = []WhereField{
	{"cmdline", "command line, without what may be secret", false, func(w *Where) *string { return &w.Cmdline }, nil},
	{"runtime", "what made its container: docker, containerd, cri-o, podman, systemd-nspawn, lxc", false, func(w *Where) *string { return &w.Runtime }, nil},
	{"container", "id of its container", true, func(w *Where) *string { return &w.Container }, nil},
	{"container_name", "what its pod calls the container", true, func(w *Where) *string { return &w.ContainerName }, nil},
	{"pod", "Kubernetes pod", true, func(w *Where) *string { return &w.Pod }, nil},
	{"namespace", "namespace of the pod", true, func(w *Where) *string { return &w.Namespace }, nil},
	{"pod_uid", "id of the pod", false, func(w *Where) *string { return &w.PodUID }, nil},
	{"qos", "class of the pod: guaranteed, burstable, besteffort", false, func(w *Where) *string { return &w.QoS }, nil},
	{"unit", "systemd unit", false, func(w *Where) *string { return &w.Unit }, nil},
	{"job", "batch job: of Slurm, PBS, LSF, or an operator of Kubernetes", true, func(w *Where) *string { return &w.Job }, nil},
	{"step", "step of the Slurm job", false, func(w *Where) *string { return &w.Step }, nil},
	{"rank", "rank in its distributed program", true, nil, func(w *Where) *Number { return &w.Rank }},
	{"local_rank", "rank among those on this machine", false, nil, func(w *Where) *Number { return &w.LocalRank }},
	{"world_size", "how many ranks there are", false, nil, func(w *Where) *Number { return &w.WorldSize }},
	{"local_world_size", "how many of them on this machine", false, nil, func(w *Where) *Number { return &w.LocalSize }},
	{"node_rank", "number of this machine among those of the program", false, nil, func(w *Where) *Number { return &w.NodeRank }},
	{"master", "address and port where its ranks meet", false, func(w *Where) *string { return &w.Master }, nil},
	{"visible_devices", "GPUs that it may see: CUDA_VISIBLE_DEVICES; none where that is empty", false, func(w *Where) *string { return &w.Devices }, nil},
}

// Map returns w with f applied to its texts.
func (w Where) Map(f func(string) string) Where {
	for i := range WhereFields {
		if text := WhereFields[i].Text; text != nil {
			*text(&w) = f(*text(&w))
		}
	}
	return w
}

// MeetLocally reports whether the ranks meet at a loopback address, or at 0.0.0.0, which connects to one. It is
// another one in each network namespace.
func (w *Where) MeetLocally() bool {
	host := w.Master
	if port := strings.LastIndexByte(host, ':'); port >= 0 && host != "::1" {
		host = host[:port]
	}
	host = strings.Trim(host, "[]")
	return host == "localhost" || host == "::1" || host == "0.0.0.0" || strings.HasPrefix(host, "127.")
}

// Number is a number that may be unknown, which is the zero value.
type Number uint64 // value plus one

// Numbered returns a known number.
func Numbered(n uint32) Number { return Number(n) + 1 }

// Value returns the number, and whether it is known.
func (n Number) Value() (uint32, bool) { return uint32(n - 1), n != 0 }

// String returns the number in decimal, or "" if it is unknown.
func (n Number) String() string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n-1), 10)
}

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return []byte(n.String()), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(b []byte) error {
	var v *uint32
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*n = 0
	if v != nil {
		*n = Numbered(*v)
	}
	return nil
}

// Pod is a Kubernetes pod that requests GPUs, whether it makes CUDA calls or not.
type Pod struct {
	UID, Name, Namespace string
	Phase                string // Pending, Running
	GPUs                 int    // requested GPUs, including shares of one
}
