package proc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// CharMajors returns the major numbers of the character devices whose driver's name begins with
// prefix, as /proc/devices lists them now. A driver that is loaded later is not in the list.
func (f FS) CharMajors(prefix string) ([]uint32, error) {
	b, err := os.ReadFile(f.path("devices"))
	if err != nil {
		return nil, fmt.Errorf("read the numbers of devices: %w", err)
	}
	return parseMajors(b, func(name string) bool { return strings.HasPrefix(name, prefix) }), nil
}

// CharMajor returns the major number of the character devices whose driver has one of some names. Without such a
// driver, ok is false.
func (f FS) CharMajor(names ...string) (major uint32, ok bool) {
	b, err := f.readFile(maxSmall, nil, "devices")
	if err != nil {
		return 0, false
	}
	majors := parseMajors(b, func(name string) bool { return slices.Contains(names, name) })
	if len(majors) == 0 {
		return 0, false
	}
	return majors[0], true
}

// parseMajors parses lines such as "195 nvidia", up to the block devices. It returns the numbers of the wanted names.
func parseMajors(b []byte, wanted func(name string) bool) (majors []uint32) {
	b, _, _ = bytes.Cut(b, []byte("Block devices:"))
	for line := range strings.Lines(string(b)) {
		number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 12)
		if ok && err == nil && wanted(name) {
			majors = append(majors, uint32(n))
		}
	}
	return majors
}
