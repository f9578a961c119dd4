// Package clock reads the kernel's clocks. It does not convert times or find steps. Its callers are
// internal/decode, which converts the times of events, and internal/query, which finds the current time
// of a recording.
package clock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Offset returns Unix time minus CLOCK_MONOTONIC, in nanoseconds. It changes when somebody sets the
// wall clock, and while the machine sleeps.
func Offset() (offset int64, err error) {
	var mono, wall, again unix.Timespec
	best := int64(1 << 62)
	for range 5 { // take the least disturbed reading
		if err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono),
			unix.ClockGettime(unix.CLOCK_REALTIME, &wall),
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &again)); err != nil {
			return 0, fmt.Errorf("read clocks: %w", err)
		}
		if took := again.Nano() - mono.Nano(); took < best {
			best, offset = took, wall.Nano()-mono.Nano()-took/2
		}
	}
	return offset, nil
}
