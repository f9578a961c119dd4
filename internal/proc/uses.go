package proc

import (
	"io"
	"strings"

	"ingero/internal/elffile"
)

// Use is the certainty that a file calls a function of the API.
type Use uint8

// The evidence that a file calls a function, weakest first.
const (
	UseNone     Use = iota
	UseNamed        // a constant has its name, as passed to dlsym and cuGetProcAddress
	UseImported     // an undefined symbol, which the loader resolves
)

// maxConstants bounds how many bytes of a file's constants are read.
const maxConstants = 256 << 20

// FindUses returns the functions of the catalog that a file may call but does not define, from its
// symbols and constants. It refuses the files that elffile.Open refuses.
func FindUses(r io.ReaderAt) (map[string]Use, error) {
	f, err := elffile.Open(r)
	if err != nil {
		return nil, err
	}
	uses := map[string]Use{}
	if err := readImports(f.Symbols(elffile.Dynsym), uses); err != nil {
		return nil, err
	}
	read := uint64(0)
	for i := range f.Sections {
		x := &f.Sections[i]
		if !isConstants(x) || read+x.Size > maxConstants {
			continue
		}
		read += x.Size
		err := eachName(x.Data, isTraced, func(_ uint64, name string, whole bool) error {
			if whole {
				uses[name] = max(uses[name], UseNamed)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return uses, nil
}

// isConstants reports whether a section has a program's constants.
func isConstants(x *elffile.Section) bool {
	return x.Constant() && (strings.HasPrefix(x.Name, ".rodata") || strings.HasPrefix(x.Name, ".lrodata"))
}

func isTraced(name []byte) bool { return tracedFunctions()[string(name)] != 0 }

// readImports collects the undefined symbols of a table.
func readImports(table elffile.SymbolTable, uses map[string]Use) error {
	names := map[uint32]string{}
	err := eachName(table.Names, isTraced, func(at uint64, name string, _ bool) error {
		names[uint32(at)] = name
		return nil
	})
	if err != nil || len(names) == 0 {
		return err
	}
	return table.Each(func(_ uint64, x *elffile.Symbol) error {
		if name := names[x.NameAt()]; name != "" && !x.Defined() {
			uses[name] = UseImported
		}
		return nil
	})
}

// Uses returns the functions of the catalog that a process's mapped code files may call. It skips
// the traced libraries themselves, since they call each other on behalf of others. It ignores
// unreadable files.
func (c *Finder) Uses(pid uint32) (map[string]Use, error) {
	files, err := c.FS.Maps(pid, true)
	if err != nil {
		return nil, err
	}
	all := map[string]Use{}
	seen := map[Key]bool{}
	for _, m := range files {
		if seen[m.Key] || stemOf([]byte(m.Path)) != 0 || len(seen) > maxInsideLook {
			continue
		}
		seen[m.Key] = true
		for name, use := range c.usesOf(pid, m) {
			all[name] = max(all[name], use)
		}
	}
	return all, nil
}

// usesOf reads a file once.
func (c *Finder) usesOf(pid uint32, m Mapping) map[string]Use {
	key := named{m.Key, m.Path}
	c.mu.Lock()
	uses, ok := c.uses[key]
	c.mu.Unlock()
	if ok {
		return uses
	}
	file, _, err := c.FS.OpenMapped(pid, m)
	if err != nil {
		return nil
	}
	defer file.Close()
	uses, _ = FindUses(file) // nil for an unreadable file, now and later
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == nil || len(c.uses) >= maxKnown {
		c.uses = map[named]map[string]Use{}
	}
	c.uses[key] = uses
	return uses
}

// named identifies a mapped file.
type named struct {
	Key
	path string
}
