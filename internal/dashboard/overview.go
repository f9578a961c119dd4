package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// lastOverview keeps the last overview: all clients request it after each update.
type lastOverview struct {
	turn   chan struct{} // held while an overview is computed or taken
	params string
	at     stamp
	made   time.Time
	answer *wire.Overview // nil: none
}

// overview returns the last overview if nothing has been written since, and computes one otherwise.
func (a *request) overview() (any, error) {
	last, came := &a.overviews, a.Now()
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	}
	at, now, params := a.news.stamp(), a.Now(), a.r.URL.RawQuery
	age := now.Sub(last.made)
	fresh := last.at == at && age >= 0 && age < lookEvery || last.made.After(came) // computed while this request waited
	if last.answer != nil && last.params == params && fresh {
		return last.answer, nil
	}
	answer, err := a.newOverview()
	if err == nil {
		last.params, last.at, last.made, last.answer = params, at, now, answer
	}
	return answer, err
}

func (a *request) newOverview() (*wire.Overview, error) {
	all, err := a.db.Sessions(a.ctx)
	if err == nil && len(all) == 0 {
		err = query.ErrNoSession
	}
	if err != nil {
		return nil, err
	}
	last := &all[0]
	o := &wire.Overview{Node: a.Node, Version: a.Version, Recording: last.State == "running", Recordings: len(all), From: all[len(all)-1].Started.UTC(),
		To: last.Updated.UTC(), Bytes: a.db.Size(), GPUs: []wire.RecordedGPU{}}
	for i := range all {
		if !slices.Contains(o.Nodes, all[i].Node) {
			o.Nodes = append(o.Nodes, all[i].Node)
		}
	}
	counts, err := a.db.Select(a.ctx, "SELECT (SELECT coalesce(sum(calls), 0) FROM ops), (SELECT count(*) FROM chains)")
	if err != nil {
		return nil, err
	}
	o.Calls, _ = counts[0][0].(int64)
	o.Chains, _ = counts[0][1].(int64)
	gpus, err := a.db.Select(a.ctx, "SELECT bus, uuid, name, mem_total FROM gpus WHERE session = (SELECT id FROM sessions WHERE uid = ?) ORDER BY idx, bus", last.ID)
	if err != nil {
		return nil, err
	}
	for _, g := range gpus {
		x := wire.RecordedGPU{Bus: fmt.Sprint(g[0]), UUID: fmt.Sprint(g[1]), Name: fmt.Sprint(g[2])}
		if n, ok := g[3].(int64); ok {
			x.Bytes = &n
		}
		o.GPUs = append(o.GPUs, x)
	}
	seen, err := a.db.Snapshots(a.ctx, query.Filter{Session: last.ID, From: last.Updated.Add(-time.Minute)})
	if err != nil {
		return nil, err
	}
	if len(seen) > 0 {
		x := snapshotOf(&seen[len(seen)-1])
		o.Snapshot = &x
	}
	o.Top, err = a.gravest(last)
	return o, err
}

// gravest returns the most expensive cause of the recording's last hour, nil if there is none. The
// report of a minute gives the same cause as that of the hour, and takes less time.
func (a *request) gravest(s *query.Session) (*wire.Chain, error) {
	end := s.Updated.Add(1)
	found, err := a.db.Chains(a.ctx, query.Filter{Session: s.ID, From: end.Add(-time.Hour), To: end})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	first := &found[0]
	windows := []time.Duration{time.Hour}
	if !first.To.IsZero() && first.To.After(s.Started) && end.Sub(first.To) < time.Hour {
		windows = []time.Duration{time.Minute, time.Hour}
	}
	for _, w := range windows {
		a.q.From, a.q.To = end.Add(-w), end
		if w < time.Hour {
			a.q.From, a.q.To = first.To.Add(-w/2), first.To.Add(w/2)
		}
		_, report, err := a.report()
		if errors.Is(err, query.ErrNoSession) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(report.Chains) > 0 && (report.Chains[0].ID == first.ID || w == time.Hour) {
			return &report.Chains[0], nil
		}
	}
	return nil, nil
}

// capability is a kind of data, with the check whether there is any.
type capability struct {
	name, about string
	have        string // SQL on the latest recording, number ?; "": not collected
	tool        string // the tool that supplies it
}

// capabilities is the manifest.
var capabilities = []capability{
	{"cuda-runtime", "calls of the CUDA runtime", "EXISTS (SELECT 1 FROM ops WHERE session = ? AND source = 'cudart')", "ingero trace, while a program uses libcudart"},
	{"cuda-driver", "calls of the CUDA driver", "EXISTS (SELECT 1 FROM ops WHERE session = ? AND source = 'driver')", "ingero trace, while a program uses libcuda"},
	{"cuda-graphs", "CUDA graphs", "EXISTS (SELECT 1 FROM ops WHERE session = ? AND source = 'graph')", "ingero trace, while a program uses CUDA graphs"},
	{"nccl", "collectives of NCCL", "EXISTS (SELECT 1 FROM ops WHERE session = ? AND source = 'nccl')", "ingero trace, while a program uses libnccl"},
	{"causes", "causes of lost time", "EXISTS (SELECT 1 FROM accounts WHERE session = ?)", "ingero trace, with the capabilities to trace the scheduler (ingero check)"},
	{"gpu-memory", "GPU memory by process", "EXISTS (SELECT 1 FROM ledgers WHERE session = ?)", "ingero trace, started before the process allocates"},
	{"stacks", "functions and lines of Python and native code", "EXISTS (SELECT 1 FROM stacks WHERE session = ?)", "ingero trace --stack"},
	{"host", "disks, memory reclaim, network and signals", "EXISTS (SELECT 1 FROM host_sums WHERE session = ?)", "ingero trace, without --no-io, --no-tcp, --no-net"},
	{"machine", "CPU, memory, swap and load", "EXISTS (SELECT 1 FROM snapshots WHERE session = ?)", "ingero trace"},
	{"gpu-state", "utilization, clocks, temperature, power and memory errors of GPUs", "EXISTS (SELECT 1 FROM gpu_states WHERE session = ?)", "nvidia-smi, installed with the driver"},
	{"xid", "faults that GPUs report", "EXISTS (SELECT 1 FROM gpu_states WHERE session = ?1) OR EXISTS (SELECT 1 FROM xids WHERE session = ?1)", "the NVIDIA driver: its tracepoint (575 and later) or the kernel's log"},
	{"pods", "Kubernetes pods of processes", "EXISTS (SELECT 1 FROM processes WHERE session = ? AND pod IS NOT NULL)", "ingero trace --kubelet or --kube-api"},
	{"kernel-durations", "how long each kernel (GPU) ran", "", "Nsight Systems (CUPTI)"},
	{"sm-occupancy", "SM occupancy and tensor core utilization", "", "DCGM (profiling metrics), or Nsight Compute"},
	{"nvlink", "NVLink and PCIe traffic", "", "DCGM"},
	{"training-metrics", "loss, throughput and steps, as counted by the program", "", "the program's own logging: TensorBoard, Weights & Biases"},
}

func (a *request) capabilities() (any, error) {
	s, err := a.db.Session(a.ctx, "")
	if err != nil {
		return nil, err
	}
	const session = "(SELECT id FROM sessions WHERE uid = ?1)"
	var have []string
	for i := range capabilities {
		x := capabilities[i].have
		if x == "" {
			x = "0"
		}
		have = append(have, strings.ReplaceAll(strings.ReplaceAll(x, "?1", "?"), "?", session))
	}
	row, err := a.db.Select(a.ctx, "SELECT "+strings.Join(have, ", "), s.ID)
	if err != nil {
		return nil, err
	}
	out := wire.Capabilities{Node: a.Node, Recording: s.ID, Reports: []wire.Limitation{}}
	for i := range capabilities {
		c := &capabilities[i]
		out.Capabilities = append(out.Capabilities, wire.Capability{Name: c.name, About: c.about, Available: row[0][i] != int64(0), Collected: c.have != "", Tool: c.tool})
	}
	reports, err := a.db.Select(a.ctx, "SELECT kind, object, why FROM reports WHERE session = "+session+" ORDER BY 1, 2 LIMIT 100", s.ID)
	for _, r := range reports {
		out.Reports = append(out.Reports, wire.Limitation{Kind: fmt.Sprint(r[0]), Object: fmt.Sprint(r[1]), Why: fmt.Sprint(r[2])})
	}
	return out, err
}
