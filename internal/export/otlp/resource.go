package otlp

import (
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Attributes of several signals. Names come from OpenTelemetry's semantic conventions if possible,
// otherwise from the first ingero (gpu.cuda.*) or ingero.*.
const (
	attrOp     = "gpu.cuda.operation.name"
	attrSource = "gpu.cuda.source"
	attrPID    = "process.pid"
	attrComm   = "process.executable.name"
)

// scope returns the instrumentation scope.
func scope(version string) *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "ingero", Version: version}
}

// process holds the attributes of a traced process.
type process struct {
	comm, exe string
	where     tick.Where
	attrs     []*commonpb.KeyValue
}

// like reports whether a process is unchanged.
func (p *process) like(t *tick.Process) bool {
	return p.comm == t.Comm && p.exe == t.Exe && p.where == t.Where
}

func newProcess(p *tick.Process) *process {
	var a attrs
	a.text(attrComm, p.Comm)
	a.text("process.executable.path", p.Exe)
	if p.PPID != 0 {
		a.num("process.parent_pid", int64(p.PPID))
	}
	a.text("process.command_line", p.Cmdline)
	a.text("container.id", p.Container)
	a.text("container.runtime", p.Runtime)
	a.text("k8s.container.name", p.ContainerName)
	a.text("k8s.pod.name", p.Pod)
	a.text("k8s.pod.uid", p.PodUID)
	a.text("k8s.namespace.name", p.Namespace)
	a.text("ingero.job", p.Job)
	if rank, known := p.Rank.Value(); known {
		a.num("ingero.rank", int64(rank))
	}
	return &process{comm: p.Comm, exe: p.Exe, where: p.Where, attrs: a.take()}
}

// agentResource returns the resource of the agent's and the machine's own telemetry.
func agentResource(o *Options) *resourcepb.Resource {
	var a attrs
	a.text("service.name", "ingero")
	a.text("service.version", o.Version)
	a.text("service.instance.id", o.Node)
	a.text("host.name", o.Node)
	a.text("os.type", "linux")
	return &resourcepb.Resource{Attributes: outrank(a.take(), o.Resource)}
}

// baseAttrs returns the machine's attributes, for each process's resource.
func baseAttrs(o *Options) []*commonpb.KeyValue {
	var a attrs
	a.text("host.name", o.Node)
	a.text("os.type", "linux")
	a.text("telemetry.distro.name", "ingero")
	a.text("telemetry.distro.version", o.Version)
	return a.take()
}

// resourceOf returns a traced process's resource. The process is the service, by its name.
func resourceOf(base []*commonpb.KeyValue, own []Attr, p *process, pid uint32) *resourcepb.Resource {
	var a attrs
	name := "process " + strconv.Itoa(int(pid))
	if p != nil && p.comm != "" {
		name = p.comm
	}
	a.text("service.name", name)
	a.num(attrPID, int64(pid))
	list := slices.Concat(a.take(), base)
	if p != nil {
		list = append(list, p.attrs...)
	}
	return &resourcepb.Resource{Attributes: outrank(list, own)}
}

// outrank replaces attributes of the same names.
func outrank(list []*commonpb.KeyValue, own []Attr) []*commonpb.KeyValue {
	if len(own) == 0 {
		return list
	}
	var a attrs
	for _, x := range own {
		list = slices.DeleteFunc(list, func(kv *commonpb.KeyValue) bool { return kv.Key == x.Key })
		a.text(strings.ToValidUTF8(x.Key, "?"), x.Value)
	}
	return append(list, a.take()...)
}

// place is a call's location in a program.
type place struct {
	function, file string
	line           int32
	trace          string // the whole stack
}

// Limits of a stack as text.
const (
	maxFrames = 48
	maxTrace  = 4 << 10 // bytes
)

func newPlace(s *events.Stack, lines []string) *place {
	p := &place{trace: strings.Join(lines[:min(len(lines), maxFrames)], "\n")}
	p.trace = strings.Clone(p.trace[:min(len(p.trace), maxTrace)])
	if f := s.Site(); f != nil {
		p.function, p.file, p.line = f.Func, f.File, f.Line
		if p.file == "" {
			p.file = f.Module
		}
	}
	return p
}
