package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// NVIDIALibraries returns the paths of NVIDIA's own libraries of a base name such as
// "libcudart.so", newest last. It ends the test if there are none: tools/nvidia-libs.sh fetches
// them.
func NVIDIALibraries(t testing.TB, name string) []string {
	t.Helper()
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range []string{"usr/lib/*", "usr/lib/*/nvidia/current"} {
		more, err := filepath.Glob(filepath.Join(root, "bin/nvidia/*", dir, name+".*.*"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, more...)
	}
	if len(found) == 0 {
		lack(t, "NVIDIA's libraries (tools/nvidia-libs.sh)")
	}
	return found
}

// Repository returns the directory of go.mod.
func Repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
}

// NVIDIAHeaders returns the concatenated texts of NVIDIA's headers, by major version of CUDA. It
// ends the test if there are none: tools/nvidia-libs.sh fetches them.
func NVIDIAHeaders(t testing.TB) map[int]string {
	t.Helper()
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[int]string{}
	for version, suite := range map[int]string{11: "bookworm", 12: "trixie"} {
		files, err := filepath.Glob(filepath.Join(root, "bin/nvidia", suite, "include/*.h"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts[version] += string(b)
		}
	}
	if len(texts) < 2 {
		lack(t, "NVIDIA's headers (tools/nvidia-libs.sh)")
	}
	return texts
}
