package check

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/proc"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// libraryPlaces are the directories in which distributions, NVIDIA's installers and container
// runtimes install CUDA libraries. They are used only while no process has loaded a library;
// otherwise, the path comes from the process.
var libraryPlaces = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib",
	"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/lib", "/usr/local/nvidia/lib64",
	"/usr/local/lib/python3*/dist-packages/nvidia/cuda_runtime/lib",
}

// loaded returns the sorted paths of a library that processes have mapped, and the number of
// those processes.
func (f *facts) loaded(lib events.Library) (paths []string, users int) {
	for i := range f.procs {
		uses := false
		for _, l := range f.procs[i].Libraries {
			if l.Lib == lib {
				uses = true
				paths = append(paths, l.Path)
			}
		}
		if uses {
			users++
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), users
}

// installed returns the sorted files of a library in libraryPlaces.
func (f *facts) installed(lib events.Library) []string {
	var out []string
	for _, place := range libraryPlaces {
		found, _ := filepath.Glob(f.Root + place + "/" + lib.String() + ".so*") // the pattern is valid
		for _, path := range found {
			path = path[len(f.Root):]
			if got, ok := (proc.Names{}).Match(path, proc.Key{}); ok && got == lib {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (f *facts) libraryLine(l wire.CheckLine, lib events.Library, absent string) []wire.CheckLine {
	paths, users := f.loaded(lib)
	l.State = OK
	switch {
	case users > 0:
		l.Note = fmt.Sprintf("loaded by %d process(es)", users)
	default:
		if paths = f.installed(lib); len(paths) == 0 {
			l.State, l.Value, l.Note = Lack, "not found", absent
			return []wire.CheckLine{l}
		}
		l.Note = "not loaded by any process yet"
	}
	l.Value = paths[0]
	for _, p := range paths[1:] {
		l.Items = append(l.Items, wire.CheckItem{Name: lib.String(), Path: p})
	}
	return []wire.CheckLine{l}
}

func cudartLine(f *facts) []wire.CheckLine {
	return f.libraryLine(wire.CheckLine{ID: "cudart", Name: "CUDA runtime"}, events.LibCudart,
		"ingero finds the library in any path when a process loads it; a program that links it statically shows driver calls")
}

func libcudaLine(f *facts) []wire.CheckLine {
	return f.libraryLine(wire.CheckLine{ID: "libcuda", Name: "CUDA driver"}, events.LibCuda,
		"the NVIDIA driver installs libcuda.so; ingero demo includes a simulated one")
}

func processLine(f *facts) []wire.CheckLine {
	l := wire.CheckLine{ID: "processes", Name: "CUDA processes", State: OK}
	if f.procsErr != nil {
		l.State, l.Value = Lack, f.procsErr.Error()
		return []wire.CheckLine{l}
	}
	for i := range f.procs {
		l.Items = append(l.Items, wire.CheckItem{PID: f.procs[i].PID, Name: f.procs[i].Comm})
	}
	l.Value = fmt.Sprintf("%d found", len(f.procs))
	if len(f.procs) == 0 {
		l.Note = "ingero trace waits for one to start"
	}
	if caps, err := f.capabilities(); f.EUID() != 0 && (err != nil || caps&(1<<unix.CAP_SYS_PTRACE) == 0) {
		l.Note = "only root sees the processes of other users"
	}
	return []wire.CheckLine{l}
}
