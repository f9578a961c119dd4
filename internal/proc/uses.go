package proc

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
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
// symbols and constants. It refuses the files that BuildID refuses.
func FindUses(r io.ReaderAt) (uses map[string]Use, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf panics on some hostile files
			uses, err = nil, fmt.Errorf("%w (%v)", errNotELF, p)
		}
	}()
	if _, err := BuildID(r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", errNotELF, err)
	}
	uses = map[string]Use{}
	read := uint64(0)
	for _, x := range f.Sections {
		switch {
		case x.Type == elf.SHT_DYNSYM && int(x.Link) < len(f.Sections):
			err = readImports(x, f.Sections[x.Link], uses)
		case isConstants(x) && read+x.FileSize <= maxConstants:
			read += x.FileSize
			err = eachName(x, isTraced, func(_ uint64, name string, whole bool) error {
				if whole {
					uses[name] = max(uses[name], UseNamed)
				}
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", x.Name, err)
		}
	}
	return uses, nil
}

// isConstants reports whether a section has a program's constants.
func isConstants(x *elf.Section) bool {
	return x.Type == elf.SHT_PROGBITS && x.Flags&(elf.SHF_WRITE|elf.SHF_EXECINSTR) == 0 &&
		(strings.HasPrefix(x.Name, ".rodata") || strings.HasPrefix(x.Name, ".lrodata"))
}

func isTraced(name []byte) bool { return tracedFunctions()[string(name)] != 0 }

// readImports collects the undefined symbols of a table.
func readImports(x, strs *elf.Section, uses map[string]Use) error {
	names := map[uint32]string{}
	err := eachName(strs, isTraced, func(at uint64, name string, _ bool) error {
		names[uint32(at)] = name
		return nil
	})
	if err != nil || len(names) == 0 {
		return err
	}
	le := binary.LittleEndian
	return chunks(x, symbolSize, func(_ uint64, b []byte) error {
		for i := 0; i < symbolChunk && i+symbolSize <= len(b); i += symbolSize {
			name := names[le.Uint32(b[i:])]
			if name != "" && le.Uint16(b[i+6:]) == uint16(elf.SHN_UNDEF) {
				uses[name] = UseImported
			}
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
