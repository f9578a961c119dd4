package where

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

const (
	id1 = "3f2b8c1d9e7a6f5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b"
	id2 = "aa2b8c1d9e7a6f5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b"
	uid = "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b"
	low = "7f0c4a52_1b3d_4e5f_8a9b_0c1d2e3f4a5b"
)

func TestCgroups(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths string // separated by spaces
		want  tick.Where
	}{
		{"none", "/", tick.Where{}},
		{"a service", "/system.slice/cron.service", tick.Where{Unit: "cron.service"}},
		{"a login", "/user.slice/user-1000.slice/session-3.scope", tick.Where{Unit: "session-3.scope"}},
		{"a user's service", "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service", tick.Where{Unit: "train.service"}},
		{"docker", "/docker/" + id1, tick.Where{Runtime: docker, Container: id1}},
		{"docker by systemd", "/system.slice/docker-" + id1 + ".scope", tick.Where{Runtime: docker, Container: id1}},
		{"docker without root", "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + id1 + ".scope", tick.Where{Runtime: docker, Container: id1}},
		{"docker, seen from a group", "/../../docker/" + id1, tick.Where{Runtime: docker, Container: id1}},
		{"docker in docker", "/docker/" + id1 + "/docker/" + id2, tick.Where{Runtime: docker, Container: id2}},
		{"systemd in docker", "/docker/" + id1 + "/system.slice/sshd.service", tick.Where{Runtime: docker, Container: id1, Unit: "sshd.service"}},
		{"podman", "/machine.slice/libpod-" + id1 + ".scope/container", tick.Where{Runtime: podman, Container: id1}},
		{"podman's monitor", "/machine.slice/libpod-conmon-" + id1 + ".scope", tick.Where{Unit: "libpod-conmon-" + id1 + ".scope"}},
		{"podman without systemd", "/libpod_parent/libpod-" + id1, tick.Where{Runtime: podman, Container: id1}},
		{"nerdctl", "/system.slice/nerdctl-" + id1 + ".scope", tick.Where{Runtime: containerd, Container: id1}},
		{"ecs", "/ecs/0123456789abcdef0123456789abcdef/" + id1, tick.Where{Container: id1}},
		{"fargate", "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890", tick.Where{Container: "0123456789abcdef0123456789abcdef-1234567890"}},
		{"a pod by systemd", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + low + ".slice/cri-containerd-" + id1 + ".scope",
			tick.Where{Runtime: containerd, Container: id1, PodUID: uid, QoS: "burstable"}},
		{"a guaranteed pod", "/kubepods.slice/kubepods-pod" + low + ".slice/crio-" + id1 + ".scope/container",
			tick.Where{Runtime: crio, Container: id1, PodUID: uid, QoS: "guaranteed"}},
		{"a pod's monitor", "/kubepods.slice/kubepods-pod" + low + ".slice/crio-conmon-" + id1 + ".scope",
			tick.Where{PodUID: uid, QoS: "guaranteed", Unit: "crio-conmon-" + id1 + ".scope"}},
		{"a pod", "/kubepods/besteffort/pod" + uid + "/" + id1, tick.Where{Container: id1, PodUID: uid, QoS: "besteffort"}},
		{"a static pod", "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id1,
			tick.Where{Container: id1, PodUID: "0123456789abcdef0123456789abcdef", QoS: "burstable"}},
		{"a pod in docker (kind)", "/docker/" + id2 + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + low + ".slice/cri-containerd-" + id1 + ".scope",
			tick.Where{Runtime: containerd, Container: id1, PodUID: uid, QoS: "burstable"}},
		{"a pod whose runtime and kubelet disagree", "/system.slice/containerd.service/kubepods-burstable-pod" + low + ".slice:cri-containerd:" + id1,
			tick.Where{Runtime: containerd, Container: id1, PodUID: uid, QoS: "burstable"}},
		{"docker in a pod", "/kubepods/burstable/pod" + uid + "/" + id1 + "/docker/" + id2, tick.Where{Runtime: docker, Container: id2, PodUID: uid, QoS: "burstable"}},
		{"lxc", "/lxc.payload.web/system.slice/nginx.service", tick.Where{Runtime: lxc, Container: "web", Unit: "nginx.service"}},
		{"lxc of old", "/lxc/101/ns", tick.Where{Runtime: lxc, Container: "101"}},
		{"lxc's monitor", "/lxc.monitor.web", tick.Where{}},
		{"nspawn", `/machine.slice/systemd-nspawn@my\x2dbox.service/payload`, tick.Where{Runtime: nspawn, Container: "my-box"}},
		{"slurm", "/slurm/uid_1000/job_4711/step_0/task_3", tick.Where{Job: "4711", Step: "0"}},
		{"slurm of several nodes", "/slurm_gpu7/uid_1000/job_4711/step_batch", tick.Where{Job: "4711", Step: "batch"}},
		{"slurm by systemd", "/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_0", tick.Where{Job: "4711", Step: "extern", Unit: "slurmstepd.scope"}},
		{"not slurm", "/x/job_4711", tick.Where{}},
		{"a container in a job", "/slurm/uid_1/job_4711/step_0/docker/" + id1, tick.Where{Job: "4711", Step: "0", Runtime: docker, Container: id1}},
		{"hierarchies", "/system.slice/slurmd.service /slurm/uid_1000/job_4711/step_0", tick.Where{Job: "4711", Step: "0", Unit: "slurmd.service"}},
		{"a hierarchy that knows only the runtime", "/system.slice/containerd.service /kubepods/pod" + uid + "/" + id1,
			tick.Where{Container: id1, PodUID: uid, QoS: "guaranteed"}},
		{"too long a name", "/lxc.payload." + strings.Repeat("x", 300), tick.Where{}},
		{"nearly an id", "/docker/" + id1[1:] + " /docker/X" + id1[1:], tick.Where{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Cgroups(strings.Fields(tt.paths))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnviron(t *testing.T) {
	n := tick.Numbered
	for _, tt := range []struct {
		name string
		vars string
		have tick.Where
		want tick.Where
	}{
		{"nothing", "HOME=/root TOKEN=x", tick.Where{}, tick.Where{}},
		{"torchrun", "RANK=3 LOCAL_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=12", tick.Where{},
			tick.Where{Rank: n(3), LocalRank: n(1), WorldSize: n(8), LocalSize: n(2), NodeRank: n(1), Master: "10.0.0.1:29500", Job: "12"}},
		{"by hand", "RANK=0 NODE_RANK=2", tick.Where{}, tick.Where{Rank: n(0), NodeRank: n(2)}},
		{"Open MPI", "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 WORLD_SIZE=99", tick.Where{},
			tick.Where{Rank: n(5), LocalRank: n(1), WorldSize: n(16), LocalSize: n(4)}},
		{"Slurm", "SLURM_PROCID=7 SLURM_LOCALID=3 SLURM_NTASKS=8 SLURM_NODEID=1 SLURM_JOB_ID=12 SLURM_STEP_ID=0", tick.Where{},
			tick.Where{Rank: n(7), LocalRank: n(3), WorldSize: n(8), NodeRank: n(1), Job: "12", Step: "0"}},
		{"a batch step", "SLURM_JOBID=12 SLURM_STEPID=4294967291", tick.Where{}, tick.Where{Job: "12", Step: "batch"}},
		{"the group knows the job", "SLURM_JOB_ID=12", tick.Where{Job: "13", Step: "1"}, tick.Where{Job: "13", Step: "1"}},
		{"PBS", "PBS_JOBID=12.head", tick.Where{}, tick.Where{Job: "12.head"}},
		{"no numbers", "RANK=-1 LOCAL_RANK=x WORLD_SIZE=99999999999 MASTER_ADDR=a;b", tick.Where{}, tick.Where{}},
		{"GPUs", "CUDA_VISIBLE_DEVICES=0,GPU-7f0c4a52", tick.Where{}, tick.Where{Devices: "0,GPU-7f0c4a52"}},
		{"no GPUs", "CUDA_VISIBLE_DEVICES=", tick.Where{}, tick.Where{Devices: "none"}},
		{"too long", "CUDA_VISIBLE_DEVICES=" + strings.Repeat("0,", 300), tick.Where{}, tick.Where{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vars := map[string]string{}
			for _, kv := range strings.Fields(tt.vars) {
				k, v, _ := strings.Cut(kv, "=")
				vars[k] = v
			}
			got := tt.have
			Environ(vars, &got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, v := range Variables() {
		if v == "" || strings.Contains(v, "TOKEN") || strings.Contains(v, "KEY") {
			t.Errorf("variable %q is read", v)
		}
	}
}

func TestSelector(t *testing.T) {
	w := tick.Where{Pod: "train-0", Namespace: "ml", PodUID: uid, Container: id1, ContainerName: "trainer", Job: "12", Step: "0"}
	for _, tt := range []struct {
		s     Selector
		match bool
		pods  bool
		text  string
	}{
		{Selector{}, true, false, ""},
		{Selector{Pod: "train-0"}, true, true, "pod train-0"},
		{Selector{Pod: "other, train-0"}, true, true, "pod other, train-0"},
		{Selector{Pod: uid}, true, false, "pod " + uid},
		{Selector{Pod: "train"}, false, true, "pod train"},
		{Selector{Namespace: "ml", Pod: "train-0"}, true, true, "pod train-0, namespace ml"},
		{Selector{Namespace: "prod", Pod: "train-0"}, false, true, "pod train-0, namespace prod"},
		{Selector{Container: id1[:12]}, true, false, "container " + id1[:12]},
		{Selector{Container: id1[:3]}, false, false, "container " + id1[:3]},
		{Selector{Container: "trainer"}, true, false, "container trainer"},
		{Selector{Cgroup: "kubepods"}, true, false, "cgroup kubepods"},
		{Selector{Cgroup: "docker"}, false, false, "cgroup docker"},
		{Selector{Job: "12"}, true, false, "job 12"},
		{Selector{Job: "12.0"}, true, false, "job 12.0"},
		{Selector{Job: "12.1,13"}, false, false, "job 12.1,13"},
		{Selector{Job: ","}, false, false, "job ,"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if got := tt.s.Match("/kubepods/x", &w); got != tt.match {
				t.Errorf("match: got %v, want %v", got, tt.match)
			}
			if got := tt.s.NeedsPods(); got != tt.pods {
				t.Errorf("needs pods: got %v, want %v", got, tt.pods)
			}
			if got := tt.s.String(); got != tt.text {
				t.Errorf("text: got %q, want %q", got, tt.text)
			}
		})
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		w    tick.Where
		want string
	}{
		{tick.Where{Unit: "cron.service"}, ""},
		{tick.Where{Runtime: docker, Container: id1}, "docker container " + id1[:12]},
		{tick.Where{Runtime: lxc, Container: "a-long-name-of-one"}, "lxc container a-long-name-of-one"},
		{tick.Where{Container: id1, PodUID: uid}, "container " + id1[:12] + " of pod " + uid},
		{tick.Where{PodUID: uid}, "pod " + uid},
		{tick.Where{Container: id1, PodUID: uid, Pod: "train-0", Namespace: "ml", ContainerName: "trainer", Rank: tick.Numbered(0), WorldSize: tick.Numbered(8)},
			"pod ml/train-0 (trainer), rank 0 of 8"},
		{tick.Where{Job: "12", Step: "0", Rank: tick.Numbered(3)}, "job 12.0, rank 3"},
	} {
		if got := Text(&tt.w); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func FuzzCgroups(f *testing.F) {
	f.Add("/kubepods.slice/kubepods-pod" + low + ".slice/crio-" + id1 + ".scope")
	f.Add(`/machine.slice/systemd-nspawn@a\x2.service`)
	f.Add("/lxc/x/slurm/job_1/step_")
	f.Fuzz(func(t *testing.T, path string) {
		w := Cgroups([]string{path})
		if w.Container != "" && len(w.Container) > most || w.Container == "" && w.Runtime != "" {
			t.Errorf("%+v", w)
		}
	})
}

func BenchmarkCgroups(b *testing.B) {
	pod := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + low + ".slice/cri-containerd-" + id1 + ".scope"
	for name, paths := range map[string][]string{"v2": {pod}, "v1": {pod, pod + "/x", "/system.slice/containerd.service", "/"}, "none": {"/user.slice/user-1000.slice/session-3.scope"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				Cgroups(paths)
			}
		})
	}
}
