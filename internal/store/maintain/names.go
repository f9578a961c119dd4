package maintain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingero/internal/store"
)

const (
	rewrittenSuffix = ".rewritten" // a segment being rewritten
	badSuffix       = ".bad"       // a damaged file that was replaced

	// restoredName is the SQLite file in which sessions are restored. From there each is moved into
	// the database as a whole.
	restoredName = ".restored.part"
)

// isLeftover reports whether a file of a database's directory is a killed process's leftover, which
// no one needs unless a process is writing.
func isLeftover(name string) bool {
	return store.Leftover(name) || strings.HasSuffix(name, rewrittenSuffix) || strings.HasPrefix(name, restoredName)
}

// isBad reports whether a repair has replaced a file.
func isBad(name string) bool {
	return strings.HasSuffix(name, badSuffix) || strings.Contains(name, badSuffix+".")
}

// free returns an unused file name of a directory: name, with a number appended if necessary.
func free(dir, name string) string {
	out := name
	for i := 2; exists(filepath.Join(dir, out)); i++ {
		out = fmt.Sprintf("%s.%d", name, i)
	}
	return out
}

// exists reports whether path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// age sets a file's modification time.
func age(path string, at time.Time) error { return os.Chtimes(path, at, at) }
