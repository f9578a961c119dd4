package proc

import (
	"bytes"
	"fmt"
	"os"
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
	return parseMajors(b, prefix), nil
}

// parseMajors parses lines such as "195 nvidia", up to the block devices.
func parseMajors(b []byte, prefix string) (majors []uint32) {
	b, _, _ = bytes.Cut(b, []byte("Block devices:"))
	for line := range strings.Lines(string(b)) {
		number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 12)
		if ok && err == nil && strings.HasPrefix(name, prefix) {
			majors = append(majors, uint32(n))
		}
	}
	return majors
}
