package where

import (
	"regexp"
	"slices"
	"strings"

	"ingero/internal/tick"
)

// Runtimes, as tick.Where names them.
const (
	docker     = "docker"
	containerd = "containerd"
	crio       = "cri-o"
	podman     = "podman"
	nspawn     = "systemd-nspawn"
	lxc        = "lxc"
)

const (
	hexID  = `([0-9a-f]{64})`
	podUID = `([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})`
)

// containers are the names that runtimes give the control group of a container: the
// match is its id. The first row that fits is taken.
var containers = []struct {
	runtime string
	parent  string // name of the group around it; "": any
	name    *regexp.Regexp
}{
	{docker, "", re(`^docker-` + hexID + `\.scope$`)},
	{containerd, "", re(`^(?:cri-containerd|nerdctl)-` + hexID + `\.scope$`)},
	{containerd, "", re(`:cri-containerd:` + hexID + `$`)}, // kubelet and containerd disagree on who makes groups
	{crio, "", re(`^crio-` + hexID + `(?:\.scope)?$`)},
	{crio, "", re(`:crio:` + hexID + `$`)},
	{podman, "", re(`^libpod-(?:payload-)?` + hexID + `(?:\.scope)?$`)},
	{docker, "docker", re(`^` + hexID + `$`)},
	{docker, "actions_job", re(`^` + hexID + `$`)}, // of GitHub's runners
	{containerd, "default", re(`^` + hexID + `$`)}, // nerdctl's own namespace
	{"", "", re(`^` + hexID + `$`)},                // in a pod, or of a task of ECS: anybody's
	{"", "", re(`^([0-9a-f]{32}-[0-9]{6,20})$`)},   // of a task of Fargate
	{nspawn, "", re(`^systemd-nspawn@(.+)\.service$`)},
	{lxc, "", re(`^lxc\.payload\.(.+)$`)},
	{lxc, "lxc", re(`^(.+)$`)},
	{lxc, "lxc.payload", re(`^(.+)$`)},
}

// pods are the names that a kubelet gives the control group of a pod: in the match
// are the class, if it is there, and the id.
var pods = []*regexp.Regexp{
	re(`^(?:[a-z0-9]+-)*kubepods(?:-(besteffort|burstable))?-pod` + podUID + `\.slice(?::.*)?$`),
	re(`^()pod` + podUID + `$`),
}

var (
	unit    = re(`\.(?:service|scope|socket|mount|swap)$`)
	job     = re(`^job_([0-9]+)$`)
	sluid   = re(`^s[0-9A-HJKMNP-TV-Z]{13}$`) // by which Slurm names the groups of a job from 26.05 on
	step    = re(`^step_([0-9a-z]+)$`)
	classes = []string{"besteffort", "burstable"}
)

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// most bounds a name that anybody may have chosen; in bytes.
const most = 256

// Cgroups says what the paths of a process's control groups tell, one a hierarchy,
// the most telling first. Of each fact the first path that has it is right.
func Cgroups(paths []string) tick.Where {
	var w tick.Where
	for _, path := range paths {
		var x tick.Where
		read(path, &x)
		if w.Container == "" && w.PodUID == "" {
			w.Runtime, w.Container, w.PodUID, w.QoS = x.Runtime, x.Container, x.PodUID, x.QoS
		}
		if w.Job == "" {
			w.Job, w.Step = x.Job, x.Step
		}
		if w.Unit == "" {
			w.Unit = x.Unit
		}
	}
	if w.Container != "" || w.PodUID != "" {
		// A hierarchy that does not know of the container says what runs its runtime.
		w.Unit = ""
		for _, path := range paths {
			var x tick.Where
			if read(path, &x); x.Container == w.Container && x.PodUID == w.PodUID && w.Unit == "" {
				w.Unit = x.Unit
			}
		}
	}
	return w
}

// read takes a path from the root down: what comes later is inside of what came
// before, and replaces it.
func read(path string, w *tick.Where) {
	names := strings.Split(path, "/")
	slurm, parent, class := false, "", ""
	for _, name := range names {
		if name == "" || len(name) > most {
			continue
		}
		slurm = slurm || strings.Contains(name, "slurm")
		switch {
		case pod(name, class, w):
			w.Runtime, w.Container, w.Unit = "", "", ""
			container(name, parent, w)
		case container(name, parent, w):
			w.Unit = ""
		case slurm && job.MatchString(name):
			w.Job, w.Step = job.FindStringSubmatch(name)[1], ""
		case slurm && sluid.MatchString(name):
			w.Job, w.Step = name, ""
		case w.Job != "" && step.MatchString(name):
			w.Step = step.FindStringSubmatch(name)[1]
		case unit.MatchString(name):
			w.Unit = name
		case slices.Contains(classes, name):
			class = name
		}
		parent = name
	}
}

// pod reads the name of a pod's group.
func pod(name, class string, w *tick.Where) bool {
	if !strings.Contains(name, "pod") { // which is quicker told
		return false
	}
	for _, like := range pods {
		m := like.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		w.PodUID = strings.ReplaceAll(m[2], "_", "-")
		w.QoS = "guaranteed"
		if m[1]+class != "" {
			w.QoS = m[1] + class
		}
		return true
	}
	return false
}

// container reads the name of a container's group.
func container(name, parent string, w *tick.Where) bool {
	for i := range containers {
		c := &containers[i]
		if c.parent != "" && c.parent != parent {
			continue
		}
		if m := c.name.FindStringSubmatch(name); m != nil {
			w.Runtime, w.Container = c.runtime, m[1]
			if c.runtime == nspawn {
				w.Container = unescape(m[1])
			}
			return true
		}
	}
	return false
}

// unescape undoes what systemd does to names of units: \x2d is a hyphen.
func unescape(s string) string {
	const digits = "0123456789abcdef"
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			hi, lo := strings.IndexByte(digits, s[i+2]), strings.IndexByte(digits, s[i+3])
			if hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// Numbered tells whether a job's control group gave its number: Slurm may have given its own
// name instead, which the environment has not.
func Numbered(job string) bool { return job != "" && !sluid.MatchString(job) }
