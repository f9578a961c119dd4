package cli

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"ingero/internal/tick"
)

// The memory limit is above the live heap and is restored at the end; a limit set by the user
// stays.
func TestMemoryLimit(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(was) })
	debug.SetMemoryLimit(math.MaxInt64)
	m := spareMemory()
	if n := debug.SetMemoryLimit(-1); n != enough {
		t.Errorf("at first it is %d, want %d", n, enough)
	}
	much := make([]byte, 2*enough)
	runtime.GC()
	if err := m.Tick(&tick.Tick{}); err != nil {
		t.Fatal(err)
	}
	if n := debug.SetMemoryLimit(-1); n < 3*enough || n > 4*enough {
		t.Errorf("with %d bytes in use it is %d", len(much), n)
	}
	runtime.KeepAlive(much)
	much = nil
	runtime.GC()
	if err := m.Tick(&tick.Tick{}); err != nil {
		t.Fatal(err)
	}
	if n := debug.SetMemoryLimit(-1); n != enough {
		t.Errorf("with little in use it is %d", n)
	}
	if err := m.Close(); err != nil || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Errorf("in the end it is %d", debug.SetMemoryLimit(-1))
	}
	debug.SetMemoryLimit(1 << 30)
	if m := spareMemory(); m != nil || debug.SetMemoryLimit(-1) != 1<<30 {
		t.Error("the user's own is not kept")
	}
}
