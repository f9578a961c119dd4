package host

import (
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

// findOwn finds the own cgroup in the host's tree. In a cgroup namespace, /proc/PID/cgroup has paths
// relative to it ("/../../pod/container"), and the own mount has only groups below it
// (cgroup_namespaces(7)).
func (p *Poller) findOwn() {
	depth := p.depth()
	i := slices.IndexFunc(p.mounts, func(m mount) bool { return m.names == nil })
	if depth == 0 || i < 0 || p.mounts[i].root != "/" {
		return
	}
	p.private = true
	at := p.mounts[i].at
	own, err := findGroup(filepath.Join("/", p.Root, at), filepath.Join("/", p.Root, hostRoot, at), depth)
	if err != nil {
		p.lacks = append(p.lacks, tick.Report{Kind: "host-source", Object: "cgroups of other containers",
			Why: filepath.Join("/", hostRoot, at) + " has no readable tree with ingero's cgroup" +
				": add SYS_PTRACE and DAC_READ_SEARCH to the container's capabilities, or start it with --cgroupns=host"})
	}
	p.own = own
}

// depth returns the depth of the own cgroup below the root; 0 outside of a cgroup namespace.
func (p *Poller) depth() int {
	of, _ := field(p.read("proc", "1", "cgroup"), "0::")
	n := 0
	for _, name := range strings.Split(string(of), "/") {
		if name == ".." {
			n++
		}
	}
	return n
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
func (p *Poller) inNamespace(at, of string) (dir, bool) {
	if p.own == "" {
		return dir{"", of, filepath.Join("/", p.Root, at, of)}, !slices.Contains(strings.Split(of, "/"), "..") && of != "/"
	}
	rel := path.Join(p.own, of)
	return dir{"", "/" + rel, filepath.Join("/", p.Root, hostRoot, at, rel)}, rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}
