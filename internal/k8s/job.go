package k8s

// jobLabels are the pod labels that name a job, by what sets them: an operator comes before the Job
// that it creates. The sources are in testdata/field/labels.tsv.
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

// maxLabel is the maximum length of a label's value.
const maxLabel = 63

// jobOf returns the job in a pod's labels, "" if there is none.
func jobOf(labels map[string]string) string {
	for _, name := range jobLabels {
		if v := labels[name]; v != "" {
			return v[:min(len(v), maxLabel)]
		}
	}
	return ""
}
