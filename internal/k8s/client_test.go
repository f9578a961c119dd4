package k8s

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// A request that fails takes its connection with it: with HTTP/2, the next one would use a dead connection again.
func TestSpeaksHTTP1(t *testing.T) {
	c, err := newClient(&Options{API: "https://host"})
	if err != nil {
		t.Fatal(err)
	}
	testkit.HTTP1(t, c.http)
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca"), "no certificate")
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"nobody", Options{}, "either"},
		{"both", Options{Kubelet: "https://a", API: "https://b"}, "either"},
		{"no URL", Options{Kubelet: "127.0.0.1:10250"}, "first path segment"},
		{"another scheme", Options{Kubelet: "ftp://a"}, "is not a URL"},
		{"a password", Options{API: "https://me:secret@host"}, "must have a scheme"},
		{"no file", Options{API: "https://host", CAFile: filepath.Join(dir, "none")}, "no such file"},
		{"no certificate", Options{API: "https://host", CAFile: filepath.Join(dir, "ca")}, "contains no certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A bare IPv6 address of a node is a host with a port.
func TestBareAddress(t *testing.T) {
	for _, tt := range []struct{ kubelet, want string }{
		{"https://fd00::1:10250", "https://[fd00::1]:10250"},
		{"https://fd00::1:10250/x", "https://[fd00::1]:10250/x"},
		{"https://[fd00::1]:10250", "https://[fd00::1]:10250"},
		{"https://[fd00::1]", "https://[fd00::1]"},
		{"https://10.0.0.7:10250", "https://10.0.0.7:10250"},
		{"https://node-7:10250/x", "https://node-7:10250/x"},
		{"https://node-7", "https://node-7"},
	} {
		t.Run(tt.kubelet, func(t *testing.T) {
			c, err := newClient(&Options{Kubelet: tt.kubelet})
			if err != nil || c.base.String() != tt.want {
				t.Errorf("got %+v, %v, want %s", c, err, tt.want)
			}
		})
	}
}

func TestGPUs(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       int
	}{
		{"none", `{"containers":[{"resources":{"limits":{"cpu":"4"}}}]}`, 0},
		{"limits only", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}},{"resources":{"limits":{"nvidia.com/gpu":2}}}]}`, 3},
		{"a part of one", `{"containers":[{"resources":{"requests":{"nvidia.com/mig-1g.5gb":"1"}}}]}`, 1},
		{"shared", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu.shared":"1"}}}]}`, 1},
		{"memory and cores of one, HAMi", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":"3000","nvidia.com/gpucores":"30"}}}]}`, 1},
		{"one after the other", `{"initContainers":[{"resources":{"limits":{"nvidia.com/gpu":"4"}}}],"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}`, 4},
		{"one that stays", `{"initContainers":[{"restartPolicy":"Always","resources":{"limits":{"nvidia.com/gpu":"1"}}}],"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}`, 2},
		{"nonsense", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"-3"}}},{"resources":{"limits":{"nvidia.com/gpu":"99999999999999999999"}}}]}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p pod
			if err := json.Unmarshal([]byte(tt.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			if got := p.gpus(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTableIsBounded(t *testing.T) {
	x, err := New(Options{Kubelet: "https://host"})
	if err != nil {
		t.Fatal(err)
	}
	pods := make([]pod, maxPods+10)
	for i := range pods {
		pods[i].Metadata.UID = fmt.Sprint(i)
	}
	if err := x.replace(pods); err == nil || len(x.pods) != maxPods {
		t.Errorf("%d are known, %v", len(x.pods), err)
	}
	b := &capped{r: strings.NewReader("abc"), left: 2}
	n, err := b.Read(make([]byte, 9))
	_, end := b.Read(make([]byte, 9))
	if n != 2 || err != nil || !errors.Is(end, errTooLong) {
		t.Errorf("read %d, %v, %v", n, err, end)
	}
}
