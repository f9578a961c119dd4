package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"ingero/internal/config"
	"ingero/internal/inference"
	"ingero/internal/k8s"
	"ingero/internal/label"
	"ingero/internal/query"
	"ingero/internal/redact"
	"ingero/internal/session"
	"ingero/internal/where"
)

// processFlags holds the flags that select recorded processes.
type processFlags struct {
	pids  []uint
	place where.Selector
}

func (o *processFlags) bind(f *pflag.FlagSet) {
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "only these processes: 4821 or 4821,5032")
	f.StringVar(&o.place.Pod, "pod", "", "only processes of these Kubernetes pods: a name or an ID")
	f.StringVar(&o.place.Namespace, "namespace", "", "only processes of pods in this Kubernetes namespace")
	f.StringVar(&o.place.Container, "container", "", "only processes of this container: at least 6 characters of its ID, or its name in a pod")
	f.StringVar(&o.place.Cgroup, "cgroup", "", "only processes whose cgroup path contains this: system.slice")
	f.StringVar(&o.place.Job, "job", "", "only processes of this batch job: 123, or 123.0 with its step")
}

// processFlagNames lists the names of those flags.
var processFlagNames = []string{"pid", "pod", "namespace", "container", "cgroup", "job"}

// noPID is a PID that no process has.
const noPID = 1<<32 - 1

// numbers returns the PIDs of --pid; nil: all.
func (o *processFlags) numbers() []uint32 { return numbers(o.pids) }

func numbers(typed []uint) (pids []uint32) {
	for _, pid := range typed {
		pids = append(pids, uint32(pid))
	}
	return pids
}

// of returns the PIDs of the selected processes of a recording; nil: all.
func (o *processFlags) of(ctx context.Context, r *query.Reader, session string) ([]uint32, error) {
	pids := o.numbers()
	if o.place == (where.Selector{}) {
		return pids, nil
	}
	all, err := r.Processes(ctx, session)
	if err != nil {
		return nil, err
	}
	out := []uint32{noPID}
	for i := range all {
		p := &all[i]
		if o.place.Match(p.Cgroup, &p.Where) && (len(pids) == 0 || slices.Contains(pids, p.PID)) {
			out = append(out, p.PID)
		}
	}
	return out, nil
}

// place returns the selector of the processes to trace.
func place(c *config.Config) where.Selector {
	p := &c.Trace.Place
	return where.Selector{Pod: p.Pod, Namespace: p.Namespace, Container: p.Container, Cgroup: p.Cgroup, Job: p.Job}
}

// live returns the options for tracing the processes that in selects.
func (e *Env) live(c *config.Config, in where.Selector) (o session.LiveOptions, err error) {
	o = session.LiveOptions{Probes: probeOptions(c), PyFromUser: c.Trace.PyWalker == pyUserspace, PyProbe: c.Trace.PyProbe, Requests: session.RequestsOf(c.Trace.Requests), Alone: c.Trace.NoFollow, MaxOverhead: c.Trace.MaxOverhead,
		Place: in, Labels: label.Options{Path: c.Trace.LabelSocket, Senders: c.Trace.LabelSenders}, Cmdline: redact.Mode(c.Trace.Cmdline), Log: e.logger(c.Debug)}
	if o.Names, err = names(c); err != nil {
		return o, err
	}
	if in := &c.Trace.Inference; in.Metrics != "off" {
		reader, err := inference.New(inference.Options{URLs: in.URLs})
		if err != nil {
			return o, &problem{What: "cannot read metrics of inference servers: " + err.Error(), Do: "ingero trace --inference-metrics-url http://10.0.0.5:8000/metrics", Code: exitUsage, Err: err}
		}
		o.Inference = reader
	}
	k := &c.Trace.Kube
	if k.Kubelet == "" && k.API == "" {
		if o.Place.NeedsPods() {
			return o, usage("set --kubelet https://127.0.0.1:10250, or --kube-api; a pod ID and --container need neither",
				"only Kubernetes knows the names and namespaces of pods")
		}
		return o, nil
	}
	pods, err := k8s.New(k8s.Options{Kubelet: k.Kubelet, API: k.API, Node: c.Node, Insecure: k.Insecure,
		TokenFile: orFileIn(k.TokenFile, serviceAccount, "token"), CAFile: orFileIn(k.CAFile, serviceAccount, "ca.crt")})
	if err != nil {
		return o, &problem{What: "cannot query Kubernetes: " + err.Error(), Do: "ingero trace --kubelet https://127.0.0.1:10250", Code: exitUsage, Err: err}
	}
	o.Pods = pods
	return o, nil
}

// serviceAccount is where Kubernetes mounts a pod's credentials.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// orFileIn returns path or, if it is empty, the path of a file in dir if that exists.
func orFileIn(path, dir, name string) string {
	if path != "" {
		return path
	}
	path = filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// shown redacts a command line by mode. In mode Off, it returns only the program.
func shown(mode redact.Mode, args []string) string {
	if mode == redact.Off {
		mode, args = redact.Safe, args[:1]
	}
	return mode.Line(args)
}
