package k8s

import (
	"encoding/json"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// The used fields of the API's types (k8s.io/api/core/v1), as they are on the wire.

type podList struct {
	Metadata listMeta `json:"metadata"`
	Items    []pod    `json:"items"`
}

type listMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

type pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     struct {
			// The id in a static pod's group names. The API server shows a mirror pod of the same
			// name with an id of its own.
			Hash string `json:"kubernetes.io/config.hash"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		QoS        string            `json:"qosClass"`
		Containers []containerStatus `json:"containerStatuses"`
		Init       []containerStatus `json:"initContainerStatuses"`
		Ephemeral  []containerStatus `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type container struct {
	RestartPolicy string `json:"restartPolicy"` // for an init container: Always, if it stays
	Resources     struct {
		Limits   map[string]quantity `json:"limits"`
		Requests map[string]quantity `json:"requests"`
	} `json:"resources"`
}

// quantity is an amount; unsharable resources have whole numbers.
type quantity string

// UnmarshalJSON implements [json.Unmarshaler]: servers write "1", people sometimes 1.
func (q *quantity) UnmarshalJSON(b []byte) error {
	*q = quantity(strings.Trim(string(b), `"`))
	return nil
}

type containerStatus struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"` // containerd://ID
}

// watchEvent is a line of a watch.
type watchEvent struct {
	Type   string          `json:"type"`   // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	Object json.RawMessage `json:"object"` // a pod; for ERROR: a status
}

// status is why a watch ended.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// isGPU reports whether a resource counts GPUs or parts of one. Others are amounts, such as HAMi's
// nvidia.com/gpumem.
func isGPU(name string) bool {
	return name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || strings.HasPrefix(name, "nvidia.com/mig-")
}

// gpuCount returns the number of GPUs that a container requests.
func (c *container) gpuCount() int {
	n := 0
	for _, all := range []map[string]quantity{c.Resources.Limits, c.Resources.Requests} {
		sum := 0
		for name, q := range all {
			if !isGPU(name) {
				continue
			}
			if some, err := strconv.ParseUint(string(q), 10, 16); err == nil {
				sum += int(some)
			}
		}
		n = max(n, sum)
	}
	return n
}

// gpus returns the number of GPUs that a pod requests. Init containers run one after the other
// before the others, except those that stay.
func (p *pod) gpus() int {
	first, stay := 0, 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy == "Always" {
			stay += c.gpuCount()
			continue
		}
		first = max(first, stay+c.gpuCount())
	}
	n := stay
	for i := range p.Spec.Containers {
		n += p.Spec.Containers[i].gpuCount()
	}
	return max(first, n)
}

// known is the kept part of a pod.
type known struct {
	tick.Pod
	hash, qos  string
	job        string                     // its job
	containers map[string]containerStatus // by id; its ContainerID is the runtime
}

// ids returns the ids after which its groups may be named.
func (k *known) ids() []string {
	if k.hash == "" || k.hash == k.UID {
		return []string{k.UID}
	}
	return []string{k.UID, k.hash}
}

// runtimes maps the runtimes in container ids to the names in tick.Where.
var runtimes = map[string]string{"containerd": "containerd", "docker": "docker", "cri-o": "cri-o"}

func (p *pod) known() *known {
	k := &known{hash: p.Metadata.Annotations.Hash, job: jobOf(p.Metadata.Labels), qos: strings.ToLower(p.Status.QoS), containers: map[string]containerStatus{},
		Pod: tick.Pod{UID: p.Metadata.UID, Name: p.Metadata.Name, Namespace: p.Metadata.Namespace, Phase: p.Status.Phase, GPUs: p.gpus()}}
	for _, all := range [][]containerStatus{p.Status.Containers, p.Status.Init, p.Status.Ephemeral} {
		for _, c := range all {
			runtime, id, ok := strings.Cut(c.ContainerID, "://")
			if ok && id != "" {
				k.containers[id] = containerStatus{Name: c.Name, ContainerID: runtimes[runtime]}
			}
		}
	}
	return k
}

// over reports whether the pod has ended.
func (k *known) over() bool { return k.Phase == "Succeeded" || k.Phase == "Failed" }
