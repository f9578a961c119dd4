package probes

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// maxLoaders bounds the number of concurrent loads.
const maxLoaders = 4

// loadAll creates the maps of a collection and loads its programs concurrently: the verifier takes
// most of the time to start a trace. They share the kernel's parsed BTF.
func loadAll(spec *ebpf.CollectionSpec, types *btf.Cache) (*ebpf.Collection, error) {
	groups := divide(spec.Programs, min(maxLoaders, runtime.GOMAXPROCS(0)))
	spec.Programs = nil
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	loaded, errs := make([]*ebpf.Collection, len(groups)), make([]error, len(groups))
	for i, g := range groups {
		part := spec.Copy()
		part.Programs = g
		wg.Go(func() {
			loaded[i], errs[i] = ebpf.NewCollectionWithOptions(part, ebpf.CollectionOptions{MapReplacements: all.Maps, Cache: types})
		})
	}
	wg.Wait()
	for _, c := range loaded {
		if c != nil {
			maps.Copy(all.Programs, c.Programs)
			c.Programs = nil
			c.Close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// divide divides programs into at most n groups with about equal numbers of instructions.
func divide(programs map[string]*ebpf.ProgramSpec, n int) []map[string]*ebpf.ProgramSpec {
	names := slices.SortedFunc(maps.Keys(programs), func(a, b string) int {
		return len(programs[b].Instructions) - len(programs[a].Instructions)
	})
	groups, size := make([]map[string]*ebpf.ProgramSpec, n), make([]int, n)
	for _, name := range names {
		least := slices.Index(size, slices.Min(size))
		if groups[least] == nil {
			groups[least] = map[string]*ebpf.ProgramSpec{}
		}
		groups[least][name] = programs[name]
		size[least] += len(programs[name].Instructions)
	}
	return slices.DeleteFunc(groups, func(g map[string]*ebpf.ProgramSpec) bool { return g == nil })
}
