package native

import (
	"hash/crc32"
	"io"
	"os"
	"path"

	"ingero/internal/native/image"
	"ingero/internal/proc"
)

// debugRoot is the system's directory of separate debug files.
const debugRoot = "/usr/lib/debug"

// maxSummed bounds the file size for checksum comparison, in bytes.
const maxSummed = 256 << 20

// debug offers candidates for the separate debug file of a module: first in the root of the
// process, then in the agent's own. They belong to root or to the module's owner.
func (s *Symbolizer) debug(pid, owner uint32, module string, d image.Debug, offer func(image.File) bool) {
	for _, root := range []uint32{pid, 0} {
		for _, name := range places(module, d) {
			f, err := s.fs.OpenIn(root, name)
			if err != nil {
				continue
			}
			uid, err := proc.Owner(f)
			other := err != nil || uid != 0 && uid != owner
			if other || d.BuildID == "" && !sums(f, d.CRC) { // only the checksum can tell that they belong together
				_ = f.Close()
				continue
			}
			if offer(f) {
				return
			}
		}
		if pid == 0 {
			return
		}
	}
}

// places lists the possible paths of a debug file (GDB's manual, 18.3).
func places(module string, d image.Debug) (out []string) {
	if len(d.BuildID) > 2 {
		dir := path.Join(debugRoot, ".build-id", d.BuildID[:2])
		out = append(out, path.Join(dir, d.BuildID[2:]+".debug"))
		if d.Path != "" && !path.IsAbs(d.Path) {
			out = append(out, path.Join(dir, d.Path))
		}
	}
	if d.Path != "" {
		if path.IsAbs(d.Path) {
			out = append(out, d.Path)
		}
		return append(out, path.Join(debugRoot, ".dwz", path.Base(d.Path)))
	}
	if d.Name != "" && path.IsAbs(module) {
		dir := path.Dir(module)
		out = append(out, path.Join(dir, d.Name), path.Join(dir, ".debug", d.Name), path.Join(debugRoot, dir, d.Name))
	}
	return out
}

// sums reports whether a file has a checksum.
func sums(f *os.File, crc uint32) bool {
	h := crc32.NewIEEE()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, maxSummed+1))
	return err == nil && n <= maxSummed && h.Sum32() == crc
}
