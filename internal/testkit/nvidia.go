package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// NVIDIALibraries returns the paths of NVIDIA's own libraries of a base name
// such as "libcudart.so", newest last, and ends the test where there are none:
// tools/nvidia-libs.sh fetches them.
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
