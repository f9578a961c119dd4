package query

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A statement that exceeds a resource limit ends, and its error names the resource.
func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name         string
		memory, disk int64
		why          string
	}{
		{"memory", 16 << 20, math.MaxInt64, "more than 16 MB of memory"},
		{"disk", math.MaxInt64, 2 << 20, "sorts more than 2 MB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer watch(ctx, cancel, tt.memory, tt.disk)()
			spill(t, 3<<20)
			grow(t, 64<<20)
			<-ctx.Done()
			var wrong *SQLError
			if err := context.Cause(ctx); !errors.As(err, &wrong) || !strings.Contains(wrong.What, tt.why) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	if n := temporary(); n != 0 {
		t.Errorf("%d bytes are in temporary files that are not there", n)
	}
}

// spill opens a file like SQLite's temporary ones: with such a name, and deleted.
func spill(t *testing.T, bytes int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "etilqs_1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := errors.Join(f.Truncate(bytes), os.Remove(f.Name())); err != nil {
		t.Fatal(err)
	}
}

// grow makes the process use more memory that Go has not used before.
func grow(t *testing.T, bytes int) {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	for i := range b { // touch the pages
		b[i] = 1
	}
}
