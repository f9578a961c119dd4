//go:build interop

package packages

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	helm     = "helm.sh/helm/v3/cmd/helm@v3.22.0"
	validate = "sigs.k8s.io/kubectl-validate@v0.0.4"
	// They run for a moment, and compiling them without optimization is faster (tools/manifests.sh).
	plain = "-gcflags=all=-N -l"
)

// manifest has the tested fields of a manifest.
type manifest struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				HostPID                      bool              `yaml:"hostPID"`
				HostNetwork                  bool              `yaml:"hostNetwork"`
				HostIPC                      bool              `yaml:"hostIPC"`
				AutomountServiceAccountToken bool              `yaml:"automountServiceAccountToken"`
				RuntimeClassName             string            `yaml:"runtimeClassName"`
				NodeSelector                 map[string]string `yaml:"nodeSelector"`
				Containers                   []container
				Volumes                      []struct {
					Name     string
					HostPath struct{ Path string } `yaml:"hostPath"`
				}
			} `yaml:"spec"`
		}
	}
}

type container struct {
	Image           string
	Args            []string
	Env             []struct{ Name, Value string }
	EnvFrom         []map[string]any `yaml:"envFrom"`
	Resources       struct{ Limits, Requests map[string]string }
	SecurityContext struct {
		Privileged               *bool
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Add, Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// daemonSet finds the DaemonSet in manifests.
func daemonSet(t *testing.T, text string) (m manifest, kinds []string) {
	t.Helper()
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var x manifest
		err := dec.Decode(&x)
		if errors.Is(err, io.EOF) {
			return m, kinds
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		kinds = append(kinds, x.Kind)
		if x.Kind == "DaemonSet" {
			m = x
		}
	}
}

// The plain manifests equal the chart's. The agent has the host's processes and the unit's
// capabilities, nothing else of the host's, and no mount over /proc.
func TestManifests(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.yaml")
	output(t, "../../tools/manifests.sh", made)
	want, err1 := os.ReadFile(made)
	got, err2 := os.ReadFile("../../deploy/kubernetes/ingero.yaml")
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
		t.Errorf("deploy/kubernetes/ingero.yaml is not what tools/manifests.sh makes (%v)", err)
	}
	m, _ := daemonSet(t, string(got))
	pod := m.Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	if !pod.HostPID || pod.HostNetwork || pod.HostIPC || pod.AutomountServiceAccountToken || pod.NodeSelector["nvidia.com/gpu.present"] != "true" {
		t.Errorf("pod %+v", pod)
	}
	if s.Privileged == nil || *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("container %+v", s)
	}
	unit := unitSandbox(t, "")
	for _, name := range s.Capabilities.Add {
		if !slices.Contains(unit.Caps, capabilities["CAP_"+name]) {
			t.Errorf("the unit has no CAP_%s", name)
		}
	}
	if len(s.Capabilities.Add) != len(unit.Caps) {
		t.Errorf("capabilities %v, the unit has %d", s.Capabilities.Add, len(unit.Caps))
	}
	for _, v := range pod.Volumes {
		if p := v.HostPath.Path; p != "" && p != "/var/lib/ingero" && p != "/sys/kernel/tracing" {
			t.Errorf("%s of the host is mounted", p)
		}
	}
	for _, v := range c.VolumeMounts {
		if v.MountPath == "/proc" || strings.HasPrefix(v.MountPath, "/proc/") || v.MountPath == "/" {
			t.Errorf("%s is mounted over", v.MountPath)
		}
	}
	if !strings.Contains(read(t, "../../server.json"), `"`+c.Image+`"`) {
		t.Errorf("image %s is not that of server.json", c.Image)
	}
	if want := "--prometheus=[::]:9090"; !slices.Contains(c.Args, want) { // IPv4 and IPv6
		t.Errorf("args %q, want %s", c.Args, want)
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if !strings.Contains(string(got), probe+":\n            httpGet: {path: /") {
			t.Errorf("there is no %s", probe)
		}
	}
	if c.Resources.Limits["memory"] == "" || c.Resources.Limits["cpu"] == "" || c.Resources.Requests["memory"] == "" {
		t.Errorf("resources %+v", c.Resources)
	}
}

const chart = "../../deploy/helm/ingero"

// template renders the chart with values.
func template(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return output(t, "go", "run", plain, helm, "template", "x", chart, "--namespace", "n", "--kube-version", "1.30.0", "--values", file)
}

// mostValues are values for all settings of the chart that can be combined.
const mostValues = `
imagePullSecrets: [{name: key}]
args: ["--cmdline=off"]
env: [{name: INGERO_DEBUG, value: "true"}]
envFrom: [{secretRef: {name: s}}]
extraVolumes: [{name: certs, secret: {secretName: s}}]
extraVolumeMounts: [{name: certs, mountPath: /certs, readOnly: true}]
runtimeClassName: nvidia
kubelet: {enabled: true, insecure: true}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
priorityClassName: system-node-critical
podAnnotations: {a: b}
extraCapabilities: [SYS_ADMIN]
seLinuxOptions: {type: spc_t}
appArmorProfile: {type: Unconfined}
`

// The chart passes helm's lint, its output fits Kubernetes's schema with the fewest and the most
// settings, and invalid settings are rejected.
func TestChart(t *testing.T) {
	output(t, "go", "run", plain, helm, "lint", "--strict", chart)
	var files []string
	for name, values := range map[string]string{"default": "", "all": mostValues, "API server": "kubeAPI: {enabled: true}"} {
		text := template(t, values)
		m, kinds := daemonSet(t, text)
		pod := m.Spec.Template.Spec
		c := pod.Containers[0]
		names := slices.Contains(kinds, "ClusterRole") && pod.AutomountServiceAccountToken
		switch name {
		case "all":
			if !names || !slices.Contains(c.Args, "--kubelet=https://$(NODE_IP):10250") || !slices.Contains(c.Args, "--kube-insecure") || !strings.Contains(text, "nodes/proxy") {
				t.Errorf("no kubelet: %v\n%s", kinds, text)
			}
			if !slices.Contains(c.SecurityContext.Capabilities.Add, "SYS_ADMIN") || c.Env[len(c.Env)-1].Name != "INGERO_DEBUG" || len(c.EnvFrom) != 1 ||
				c.VolumeMounts[len(c.VolumeMounts)-1].MountPath != "/certs" || pod.Volumes[len(pod.Volumes)-1].Name != "certs" || pod.RuntimeClassName != "nvidia" {
				t.Errorf("settings are missing:\n%s", text)
			}
		case "API server":
			if !names || !slices.Contains(c.Args, "--kube-api=https://kubernetes.default.svc") || !strings.Contains(text, "[list, watch]") || strings.Contains(text, "nodes/proxy") {
				t.Errorf("no API server: %v\n%s", kinds, text)
			}
		}
		file := filepath.Join(t.TempDir(), "all.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	output(t, "go", append([]string{"run", plain, validate, "--version", "1.30"}, files...)...)
	// The validation itself must find errors.
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: x}\nspec: {selektor: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "go", "run", plain, validate, "--version", "1.30", wrong)
	refused(t, "go", "run", plain, helm, "template", "x", chart, "--kube-version", "1.30.0", "--set", "hostPath=/proc")
	refused(t, "go", "run", plain, helm, "template", "x", chart, "--kube-version", "1.30.0", "--set", "kubelet.enabled=true,kubeAPI.enabled=true")
}
