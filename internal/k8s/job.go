package k8s

// jobLabels are labels of pods that name what the pod is a part of, by what makes it: an operator
// before the Job that it has made. The sources are in testdata/field/labels.tsv.
var jobLabels = []string{
	"jobset.sigs.k8s.io/jobset-name",   // JobSet; Kubeflow Trainer
	"training.kubeflow.org/job-name",   // Kubeflow training operator, MPI operator
	"volcano.sh/job-name",              // Volcano
	"leaderworkerset.sigs.k8s.io/name", // LeaderWorkerSet
	"ray.io/originated-from-cr-name",   // KubeRay: a RayJob or a RayService
	"ray.io/cluster",                   // KubeRay: a RayCluster
	"batch.kubernetes.io/job-name",     // a Job
	"job-name",                         // a Job, before Kubernetes 1.27
}

// maxLabel is how long the value of a label is at most.
const maxLabel = 63

// jobOf returns the name of the job that a pod's labels tell, "" where they tell none.
func jobOf(labels map[string]string) string {
	for _, name := range jobLabels {
		if v := labels[name]; v != "" {
			return v[:min(len(v), maxLabel)]
		}
	}
	return ""
}
