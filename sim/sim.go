package sim

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

//go:embed py/*.py
var scripts embed.FS

// Stack is an extracted stack. Its libraries and programs lie in one directory, where they find
// each other.
type Stack struct {
	Dir         string
	Libcuda     string // libcuda.so.1
	Libcudart   string // libcudart.so.12, to which the programs are linked
	Libcudart13 string // libcudart.so.13
	Libnccl     string // libnccl.so.2
}

// Program returns the path of a program; README.md lists them.
func (s Stack) Program(name string) string { return filepath.Join(s.Dir, name) }

// Script returns the path of a Python program, train.py or infer.py, for python3. The program loads
// the runtime from its own directory.
func (s Stack) Script(name string) string { return filepath.Join(s.Dir, name) }

// Files returns the names of all files that [Extract] writes, sorted.
func Files() []string {
	files, err := contents()
	if err != nil {
		panic(err) // reading embedded files cannot fail
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Extract writes the stack for this architecture into dir, which it creates if necessary. All users
// may read and run the files. It replaces files of an earlier Extract and never writes to them, so
// running processes are not disturbed.
func Extract(dir string) (Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Stack{}, err
	}
	files, err := contents()
	if err != nil {
		return Stack{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Stack{}, fmt.Errorf("extract the simulated CUDA stack: %w", err)
	}
	for _, name := range Files() {
		if err := replace(filepath.Join(dir, name), files[name]); err != nil {
			return Stack{}, fmt.Errorf("extract the simulated CUDA stack: %w", err)
		}
	}
	return Stack{
		Dir:         dir,
		Libcuda:     filepath.Join(dir, "libcuda.so.1"),
		Libcudart:   filepath.Join(dir, "libcudart.so.12"),
		Libcudart13: filepath.Join(dir, "libcudart.so.13"),
		Libnccl:     filepath.Join(dir, "libnccl.so.2"),
	}, nil
}

func contents() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, from := range []struct {
		fs  embed.FS
		dir string
	}{{prebuilt, "prebuilt/" + runtime.GOARCH}, {scripts, "py"}} {
		entries, err := fs.ReadDir(from.fs, from.dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			b, err := from.fs.ReadFile(from.dir + "/" + e.Name())
			if err != nil {
				return nil, err
			}
			out[e.Name()] = b
		}
	}
	return out, nil
}

// replace writes a new file and renames it over the old one. No process is started meanwhile: its child
// would hold the file open for writing until it executes its own program, and the kernel refuses to
// execute a file that is open for writing.
func replace(path string, b []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.CreateTemp(filepath.Dir(path), ".sim-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o755)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
