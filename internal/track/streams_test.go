package track

import (
	"slices"
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

func on(stream uint64) with    { return with{events.RoleStream: stream} }
func device(d uint64) with     { return with{events.RoleDevice: d} }
func context(ctx uint64) with  { return with{events.RoleContext: ctx} }
func unseen() *bench           { b := &bench{tr: New(), at: began}; return b }
func late(t *testing.T) *bench { b := unseen(); b.t = t; return b }

// The device of a call follows from earlier calls of its thread.
func TestDevices(t *testing.T) {
	retain := func(b *bench, ctx, d uint64) {
		b.call("cuDevicePrimaryCtxRetain", with{events.RoleContext: ctx, events.RoleDevice: d})
	}
	for _, tt := range []struct {
		name string
		late bool
		do   func(b *bench)
		want int16
	}{
		{"the first, where nothing was said", false, func(*bench) {}, 1},
		{"not known, where something may have been", true, func(*bench) {}, 0},
		{"chosen", true, func(b *bench) { b.call("cudaSetDevice", device(3)) }, 4},
		{"chosen in vain", false, func(b *bench) { b.call("cudaSetDevice", device(3), failing(101)) }, 1},
		{"chosen by another thread", false, func(b *bench) { b.call("cudaSetDevice", device(3), onThread(2)) }, 1},
		{"a primary context", true, func(b *bench) { retain(b, 0xc0, 2); b.call("cuCtxSetCurrent", context(0xc0)) }, 3},
		{"a context of before", true, func(b *bench) { retain(b, 0xc0, 2); b.call("cuCtxSetCurrent", context(0xc1)) }, 0},
		{"one that was made", true, func(b *bench) {
			b.call("cuCtxCreate", with{events.RoleContext: 0xc5, events.RoleDevice: 1})
		}, 2},
		{"pushed and popped", false, func(b *bench) {
			retain(b, 0xc0, 2)
			b.call("cuCtxPushCurrent", context(0xc0))
			b.call("cuCtxPopCurrent", context(0xc0))
		}, 1},
		{"pushed", false, func(b *bench) { retain(b, 0xc0, 2); b.call("cuCtxPushCurrent", context(0xc0)) }, 3},
		{"popped, though no push was seen, by a process of one device", true, func(b *bench) {
			retain(b, 0xc0, 2)
			b.call("cuCtxPopCurrent", context(0xc7))
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := late(t)
			if !tt.late {
				b = newBench(t)
			}
			tt.do(b)
			if c := b.call("cudaLaunchKernel", on(0)); c.Device != tt.want {
				t.Errorf("device %d, want %d", c.Device, tt.want)
			}
		})
	}
}

// A replay has the devices of the recording.
func TestDevicesOfAReplay(t *testing.T) {
	b := late(t)
	b.call("cudaMalloc", alloc(1<<30, 5), func(c *events.Call) { c.Device = 7 })
	if s := b.state(); len(s.Held) != 1 || s.Held[0].Device != 7 {
		t.Errorf("%+v", s.Held)
	}
	if c := b.call("cudaLaunchKernel", on(0)); c.Device != 7 {
		t.Errorf("device %d, want 7", c.Device)
	}
}

// A reset or destroyed device or context loses its memory, and no other does.
func TestResets(t *testing.T) {
	b := newBench(t)
	b.call("cudaMalloc", alloc(1<<30, 5))
	b.call("cudaSetDevice", device(1))
	b.call("cudaMalloc", alloc(2<<30, 7))
	b.call("cudaDeviceReset", nil)
	if m := b.state().Memory; m.GPU.Bytes != 5 || m.Released != 1 || m.GPU.Peak != 12 {
		t.Errorf("after the reset of device 1: %+v", m)
	}
	b.call("cudaFree", ptr(1<<30))
	b.call("cuCtxCreate", with{events.RoleContext: 0xc5, events.RoleDevice: 2})
	b.call("cuMemAlloc", alloc(3<<30, 9))
	b.call("cuCtxDestroy", context(0xc5))
	if m := b.state().Memory; m.GPU.Bytes != 0 || m.Released != 2 || m.Frees != 1 {
		t.Errorf("after the context's end: %+v", m)
	}
}

// Physical memory is freed when its handle and all its mappings are.
func TestPhysicalMemory(t *testing.T) {
	b := newBench(t)
	handle := func(n uint64) with { return with{events.RoleHandle: 9, events.RoleBytes: n} }
	at := func(p, n uint64) with { return with{events.RolePtr: p, events.RoleBytes: n} }
	want := func(when string, bytes, frees uint64) {
		t.Helper()
		if m := b.state().Memory; m.GPU.Bytes != bytes || m.Frees != frees || m.UnknownFrees != 0 {
			t.Errorf("%s: %+v", when, m)
		}
	}
	b.call("cuMemCreate", handle(64))
	b.call("cuMemMap", with{events.RolePtr: 1 << 40, events.RoleHandle: 9, events.RoleBytes: 32})
	b.call("cuMemMap", with{events.RolePtr: 1<<40 + 32, events.RoleHandle: 9, events.RoleBytes: 32})
	b.call("cuMemRelease", with{events.RoleHandle: 9})
	want("released, mapped twice", 64, 0)
	b.call("cuMemUnmap", at(1<<40, 64))
	want("both unmapped at once", 0, 1)
	b.call("cuMemRelease", with{events.RoleHandle: 77})
	want("another process's", 0, 1)
	if b.tr.allocations != 0 {
		t.Errorf("%d are still counted", b.tr.allocations)
	}
}

// Launches are outstanding until a call has waited for them.
func TestStreams(t *testing.T) {
	launches := func(b *bench, stream uint64, n int) {
		for range n {
			b.call("cudaLaunchKernel", on(stream))
		}
	}
	for _, tt := range []struct {
		name string
		do   func(b *bench)
		want [2]uint64 // outstanding in streams 0x50 and 0x60
	}{
		{"nothing waited", func(*bench) {}, [2]uint64{3, 2}},
		{"for one stream", func(b *bench) { b.call("cudaStreamSynchronize", on(0x50)) }, [2]uint64{0, 2}},
		{"asked", func(b *bench) { b.call("cudaStreamQuery", on(0x50)) }, [2]uint64{0, 2}},
		{"asked, not ready", func(b *bench) { b.call("cudaStreamQuery", on(0x50), failing(600)) }, [2]uint64{3, 2}},
		{"for the device", func(b *bench) { b.call("cudaDeviceSynchronize", nil) }, [2]uint64{}},
		{"for an event", func(b *bench) {
			b.call("cudaEventRecord", with{events.RoleEvent: 7, events.RoleStream: 0x50})
			launches(b, 0x50, 4)
			b.call("cudaEventSynchronize", with{events.RoleEvent: 7})
		}, [2]uint64{4, 2}},
		{"while another thread launched", func(b *bench) {
			c := b.make("cudaStreamSynchronize", on(0x50))
			launches(b, 0x50, 2)
			c.Duration = b.at - c.Start
			b.tr.Batch([]events.Call{c}, nil)
		}, [2]uint64{2, 2}},
		{"how much memory there is was asked", func(b *bench) { b.call("cudaMemGetInfo", nil) }, [2]uint64{3, 2}},
		{"the driver's launch is the same", func(b *bench) {
			b.call("cuLaunchKernel", on(0x50), within(b.t, "cudaLaunchKernel"))
		}, [2]uint64{3, 2}},
		{"one failed", func(b *bench) { b.call("cudaLaunchKernel", on(0x50), failing(1)) }, [2]uint64{3, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			launches(b, 0x50, 3)
			launches(b, 0x60, 2)
			tt.do(b)
			got := map[uint64]uint64{}
			for _, s := range b.state().Streams.First {
				got[s.Handle] = s.Outstanding
			}
			if got[0x50] != tt.want[0] || got[0x60] != tt.want[1] {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Every name of the tables is an operation, since its row would have no effect otherwise.
func TestEffectsHaveRows(t *testing.T) {
	var all []string
	for _, k := range kinds {
		all = append(append(all, k.alloc...), k.free...)
	}
	for _, n := range named {
		all = append(all, n.names...)
	}
	for _, name := range all {
		if len(rowsNamed(name)) != 1 {
			t.Errorf("%s: %d operations have that name", name, len(rowsNamed(name)))
		}
	}
}

// The GPU of an ordinal is the one that the driver reported to the process.
func TestIdentities(t *testing.T) {
	b := newBench(t)
	for _, d := range []uint64{1, 0, 1} {
		b.call("cuDeviceGetUuid", device(d), func(c *events.Call) { c.Args[1], c.Args[2] = 0x0706050403020100, 0x0f0e0d0c0b0a0908+d<<56 })
	}
	b.call("cuDeviceGetUuid", device(5), failing(101))
	want := []tick.Device{{Device: 1, UUID: "00010203-0405-0607-0809-0a0b0c0d0e0f"}, {Device: 2, UUID: "00010203-0405-0607-0809-0a0b0c0d0e10"}}
	if got := b.state().Devices; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
