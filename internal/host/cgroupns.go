package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ingero/internal/tick"
)

const (
	// hostRoot is the host's root directory, as seen from a container with the host's PIDs.
	hostRoot = "proc/1/root"
	// maxTree is the largest number of cgroups among which the own one is searched.
	maxTree = 1 << 14
)

// findOwn finds the own cgroup in the host's tree of each hierarchy. In a cgroup namespace,
// /proc/PID/cgroup has paths relative to it ("/../../pod/container"), and the own mount has only groups
// below it (cgroup_namespaces(7)).
func (p *Poller) findOwn() {
	var missing []string
	for i := range p.mounts {
		m := &p.mounts[i]
		depth := p.depth(m)
		if depth == 0 || m.root != "/" || !m.needed() {
			continue
		}
		m.private = true
		var err error
		if m.own, err = findGroup(filepath.Join("/", p.Root, m.at), filepath.Join("/", p.Root, hostRoot, m.at), depth); err != nil {
			missing = append(missing, filepath.Join("/", hostRoot, m.at))
		}
	}
	if len(missing) > 0 {
		p.lacks = append(p.lacks, tick.Report{Kind: "host-source", Object: "cgroups of other containers",
			Why: strings.Join(missing, ", ") + " has no readable tree with ingero's cgroup" +
				": add SYS_PTRACE and DAC_READ_SEARCH to the container's capabilities, or start it with --cgroupns=host"})
	}
}

// needed reports whether files of a hierarchy are read.
func (m *mount) needed() bool {
	return m.names == nil || slices.ContainsFunc(m.names, func(name string) bool {
		_, cpus := cpusets[name]
		return cpus || hasFiles(name) || hasLimits(name)
	})
}

// depth returns the depth of the own cgroup below the root of a hierarchy; 0 outside of a cgroup
// namespace.
func (p *Poller) depth(m *mount) (n int) {
	for line := range bytes.Lines(p.read("proc", "1", "cgroup")) { // "id:controllers:path"
		words := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(words) != 3 || !m.has(strings.Split(words[1], ",")...) {
			continue
		}
		for _, name := range strings.Split(words[2], "/") {
			if name == ".." {
				n++
			}
		}
		return n
	}
	return 0
}

// findGroup returns the path, below a tree, of the directory at a depth that is the same as own.
// All mounts of a hierarchy have the same inodes.
func findGroup(own, tree string, depth int) (found string, err error) {
	is, err := os.Stat(own)
	if err != nil {
		return "", err
	}
	left := maxTree
	err = filepath.WalkDir(tree, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && at == tree:
			return err
		case err != nil || !e.IsDir(): // a group may end at any time
			return nil
		case left == 0:
			return fs.SkipAll
		}
		left--
		rel, _ := filepath.Rel(tree, at)
		if rel == "." || strings.Count(rel, "/")+1 < depth {
			return nil
		}
		if x, err := e.Info(); err == nil && os.SameFile(is, x) {
			found = rel
			return fs.SkipAll
		}
		return fs.SkipDir
	})
	if err == nil && found == "" {
		err = errors.New("no such group")
	}
	return found, err
}

// inNamespace returns the group of a path relative to the own cgroup namespace. It returns false for
// the root of the host's tree and for groups outside of it. If the own group is not known, it returns
// false for each group that the own mount lacks.
func (p *Poller) inNamespace(m *mount, controller, of string) (dir, bool) {
	if m.own == "" {
		return dir{controller, of, filepath.Join("/", p.Root, m.at, of)}, !slices.Contains(strings.Split(of, "/"), "..") && of != "/"
	}
	rel := path.Join(m.own, of)
	return dir{controller, "/" + rel, filepath.Join("/", p.Root, hostRoot, m.at, rel)}, rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}
