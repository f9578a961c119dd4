package sim

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

// extract writes the stack for the test.
func extract(t *testing.T) Stack {
	t.Helper()
	s, err := Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExtract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := Extract(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != 0o755 {
			t.Errorf("%s has mode %v, want -rwxr-xr-x", e.Name(), st.Mode())
		}
	}
	want := []string{
		"advanced", "calib", "calls", "cuda13", "ddp", "gpu.py", "graph", "infer", "infer.py", "jit", "late",
		"libcuda.so.1", "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2", "libnvToolsExt.so.1", "loader", "loop", "memory",
		"multi", "static", "static-stripped", "torch", "train", "train.py", "vecAdd.cubin",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("extracted files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, Files()); diff != "" {
		t.Errorf("Files (-want +got):\n%s", diff)
	}
	for _, path := range []string{s.Libcuda, s.Libcudart, s.Libcudart13, s.Program("train"), s.Script("train.py")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// A running program is not disturbed when the stack is extracted again.
func TestExtractReplacesFilesInUse(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("late"))
	c.Line("ready ")
	before, err := os.Stat(s.Program("late"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(s.Dir); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(s.Program("late"))
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Error("Extract wrote into the file that a process runs")
	}
	c.Send("")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

func TestExtractRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(path); err == nil {
		t.Error("Extract over a file succeeded")
	}
}

// The committed files are small, and both architectures have the same files.
func TestPrebuilt(t *testing.T) {
	names := map[string][]string{}
	var total int64
	err := filepath.WalkDir("prebuilt", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		total += st.Size()
		arch := filepath.Base(filepath.Dir(path))
		names[arch] = append(names[arch], e.Name())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names["amd64"], names["arm64"]) || len(names) != 2 {
		t.Errorf("prebuilt files differ: amd64 %v, arm64 %v", names["amd64"], names["arm64"])
	}
	if total > 1900<<10 {
		t.Errorf("prebuilt files have %d bytes, more than 1900 KiB", total)
	}
}
