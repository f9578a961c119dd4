package testkit

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// pythons are the versions whose stacks ingero reads.
var pythons = []string{"3.10", "3.11", "3.12", "3.13", "3.14"}

// PythonVersion returns the version of python3, such as "3.11". It ends the test unless ingero
// reads that version's stacks.
func PythonVersion(t testing.TB) string {
	t.Helper()
	NeedTool(t, "python3")
	version, err := systemPython()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(pythons, version) {
		lack(t, "a python3 of a version from "+strings.Join(pythons, ", ")+", not "+version)
	}
	return version
}

var systemPython = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	return strings.TrimSpace(string(out)), err
})

// NeedPython returns the path of a CPython of a version such as "3.12": from pyenv, PATH, or a Go
// module that contains it. It ends the test if there is none.
func NeedPython(t testing.TB, version string) string {
	t.Helper()
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		home, _ := os.UserHomeDir()
		root = filepath.Join(home, ".pyenv")
	}
	if found, _ := filepath.Glob(filepath.Join(root, "versions", version+".*", "bin", "python"+version)); len(found) > 0 {
		return found[len(found)-1]
	}
	if path, err := exec.LookPath("python" + version); err == nil {
		return path
	}
	path, err := modulePython(version)
	if err == nil {
		return path
	}
	t.Log(err)
	lack(t, "CPython "+version)
	return ""
}

// modulePythons are the programs that modulePython has unpacked, by version.
var modulePythons struct {
	sync.Mutex
	paths map[string]string
}

// modulePython unpacks a CPython of the Go module github.com/kluctl/go-embed-python into a
// directory of this user, which later tests reuse. testdata/python has the module's version and
// sum.
func modulePython(version string) (string, error) {
	modulePythons.Lock()
	defer modulePythons.Unlock()
	if path, ok := modulePythons.paths[version]; ok {
		return path, nil
	}
	path, err := fetchPython(version)
	if err != nil {
		return "", fmt.Errorf("CPython %s of a Go module: %w", version, err)
	}
	if modulePythons.paths == nil {
		modulePythons.paths = map[string]string{}
	}
	modulePythons.paths[version] = path
	return path, nil
}

func fetchPython(version string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/kluctl/go-embed-python")
	cmd.Dir = filepath.Join(root, "internal/testkit/testdata/python", version)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ingero-test-python-%d-%s", os.Geteuid(), module.Version))
	program := filepath.Join("bin", "python"+version)
	if info, err := os.Lstat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || !info.IsDir() || s.Mode&0o022 != 0 {
			return "", fmt.Errorf("%s can be written by others: remove it", dir)
		}
		return filepath.Join(dir, program), nil
	}
	part, err := os.MkdirTemp(os.TempDir(), "ingero-test-python-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(part) }()
	if err := unpack(part, filepath.Join(module.Dir, "python/internal/data/linux-"+runtime.GOARCH)); err != nil {
		return "", err
	}
	if out, err := exec.Command(filepath.Join(part, program), "-c", "").CombinedOutput(); err != nil {
		return "", fmt.Errorf("what was unpacked does not run: %w\n%s", err, out)
	}
	if err := os.Chmod(part, 0o755); err != nil { // programs of other users run it, too
		return "", err
	}
	if err := os.Rename(part, dir); err != nil && !os.IsExist(err) {
		return "", err
	}
	return filepath.Join(dir, program), nil
}

// unpack copies a Python's files from a tree with compressed files.
func unpack(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "site-packages" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		var r io.Reader = in
		if strings.HasSuffix(rel, ".gz") {
			rel = strings.TrimSuffix(rel, ".gz")
			if r, err = gzip.NewReader(in); err != nil {
				return err
			}
		}
		out, err := os.OpenFile(filepath.Join(to, rel), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, r); err != nil {
			_ = out.Close()
			return err
		}
		return out.Close()
	})
}

// PythonCall is a call of internal/python/testdata/corpus.py.
type PythonCall struct {
	PID    uint32
	Number uint64 // its first argument
}

// PythonTruth reads the stacks that the program wrote about itself into a directory: by call, the
// lines of its functions, innermost first.
func PythonTruth(t testing.TB, dir string) map[PythonCall][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "truth.*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[PythonCall][]string{}
	for _, file := range files {
		var pid uint32
		if _, err := fmt.Sscanf(filepath.Ext(file), ".%d", &pid); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			var number uint64
			var frames [][3]any
			if err := json.Unmarshal([]byte(l), &[2]any{&number, &frames}); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, f := range frames {
				n, _ := f[2].(float64)
				lines = append(lines, PythonLine(f[0].(string), f[1].(string), int(n)))
			}
			out[PythonCall{pid, number}] = lines
		}
	}
	return out
}

// PythonLine formats one function of a stack.
func PythonLine(name, file string, line int) string {
	return fmt.Sprintf("%s at %s:%d", name, file, line)
}
