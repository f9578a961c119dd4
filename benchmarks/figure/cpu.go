package figure

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CPU returns the CPU time of a process's live threads.
func CPU(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var n time.Duration
		if _, err := fmt.Sscan(string(b), &n); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += n
	}
	return sum, nil
}
