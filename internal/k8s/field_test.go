package k8s

import (
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// A pod's job comes from its operator's labels. Its processes belong to that job, and not to one of
// the same name in another namespace.
func TestFieldLabels(t *testing.T) {
	for _, f := range testkit.Facts(t, "labels.tsv") {
		t.Run(f.At, func(t *testing.T) {
			var p pod
			p.Metadata.Name, p.Metadata.Namespace, p.Metadata.UID, p.Metadata.Labels = "pod-0", "ml", uid1, map[string]string{"app": "x"}
			for _, kv := range strings.Fields(f.Input) {
				k, v, _ := strings.Cut(kv, "=")
				p.Metadata.Labels[k] = v
			}
			x, err := New(Options{Kubelet: "https://host"})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.replace([]pod{p}); err != nil {
				t.Fatal(err)
			}
			process := tick.Process{PID: 7, Comm: "python", Where: tick.Where{PodUID: uid1}}
			if !x.Complete(&process.Where) {
				t.Fatal("the pod is not known")
			}
			f.Check(t, map[string]string{"job": process.Job, "name": where.Job(&process)})
			slurm := tick.Where{PodUID: uid1, Job: "4711"}
			if x.Complete(&slurm); slurm.Job != "4711" {
				t.Errorf("the batch job 4711 became %q", slurm.Job)
			}
		})
	}
}
