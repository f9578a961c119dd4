package where

import (
	"regexp"
	"slices"
	"strings"

	"ingero/internal/tick"
)

// Container runtimes, as tick.Where names them.
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

// containers are the patterns of container control group names, by runtime. The match is the
// container's id. The first row that matches counts.
var containers = []struct {
	runtime string
	parent  string // name of the parent group; "": any
	name    *regexp.Regexp
}{
	{docker, "", re(`^docker-` + hexID + `\.scope$`)},
	{containerd, "", re(`^(?:cri-containerd|nerdctl)-` + hexID + `\.scope$`)},
	{containerd, "", re(`:cri-containerd:` + hexID + `$`)}, // kubelet and containerd disagree on who makes groups
	{crio, "", re(`^crio-` + hexID + `(?:\.scope)?$`)},
	{crio, "", re(`:crio:` + hexID + `$`)},
	{podman, "", re(`^libpod-(?:payload-)?` + hexID + `(?:\.scope)?$`)},
	{docker, "docker", re(`^` + hexID + `$`)},
	{docker, "actions_job", re(`^` + hexID + `$`)}, // GitHub's runners
	{containerd, "default", re(`^` + hexID + `$`)}, // nerdctl's own namespace
	{"", "", re(`^` + hexID + `$`)},                // in a pod, or an ECS task: any runtime
	{"", "", re(`^([0-9a-f]{32}-[0-9]{6,20})$`)},   // a Fargate task
	{nspawn, "", re(`^systemd-nspawn@(.+)\.service$`)},
	{lxc, "", re(`^lxc\.payload\.(.+)$`)},
	{lxc, "lxc", re(`^(.+)$`)},
	{lxc, "lxc.payload", re(`^(.+)$`)},
}

// pods are the patterns of a pod's control group name, as the kubelet makes it. They match the
// class, if present, and the pod's id.
var pods = []*regexp.Regexp{
	re(`^(?:[a-z0-9]+-)*kubepods(?:-(besteffort|burstable))?-pod` + podUID + `\.slice(?::.*)?$`),
	re(`^()pod` + podUID + `$`),
}

var (
	unit    = re(`\.(?:service|scope|socket|mount|swap)$`)
	job     = re(`^job_([0-9]+)$`)
	sluid   = re(`^s[0-9A-HJKMNP-TV-Z]{13}$`) // Slurm's names for job groups from 26.05 on
	step    = re(`^step_([0-9a-z]+)$`)
	classes = []string{"besteffort", "burstable"}
)

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// most bounds a name that anybody may have chosen; in bytes.
const most = 256

// Cgroups returns what a process's control group paths say, one path per hierarchy, in order of
// preference. For each fact the first path that has it counts.
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
		// In a hierarchy without the container's group, the unit is the one that runs the runtime.
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

// read walks a path from the root down. A deeper name replaces the outer ones.
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

// pod parses the name of a pod's group.
func pod(name, class string, w *tick.Where) bool {
	if !strings.Contains(name, "pod") { // the quick check
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

// container parses the name of a container's group.
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

// unescape undoes systemd's escapes in unit names: \x2d is a hyphen.
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

// Numbered reports whether the name from a job's control group is the job's number. Slurm may use a
// name of its own instead, which the environment does not have.
func Numbered(job string) bool { return job != "" && !sluid.MatchString(job) }
