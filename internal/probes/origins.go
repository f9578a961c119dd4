package probes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// Doubled reports whether each successful call of a row makes one driver launch, so that the
// driver's probe sees the same launch again.
func Doubled(r *events.Row) bool {
	return launches(r) && r.Lib == events.LibCudart && !strings.Contains(r.Name, "MultiDevice")
}

// driverLaunch reports whether a row is, or may be, such a driver launch.
func driverLaunch(r *events.Row) bool { return launches(r) && r.Lib == events.LibCuda }

func launches(r *events.Row) bool { return r.Class == events.ClassLaunch && !r.EntryOnly }

// Origins is the use of the return addresses of driver launches.
type Origins uint32

// The uses.
const (
	OriginsOff Origins = Origins(bpf.IngeroOriginsUseORIGINS_OFF)
	// OriginsLearn learns which runtime operation launches from each return address, while the
	// runtime's probes are attached.
	OriginsLearn Origins = Origins(bpf.IngeroOriginsUseORIGINS_LEARN)
	// OriginsDerive counts and records a driver launch that no runtime probe saw as a call of the
	// learned operation, too. It must be on before the probes of [Doubled] rows are detached, and
	// until launches that began without them have reached the driver.
	OriginsDerive Origins = Origins(bpf.IngeroOriginsUseORIGINS_DERIVE)
)

// SetOrigins sets the use of return addresses.
func (t *Tracer) SetOrigins(to Origins) error {
	if err := t.objects.OriginsMode.Set(uint32(to)); err != nil {
		return fmt.Errorf("write the origins of launches: %w", err)
	}
	return nil
}

// UnknownOrigins returns the number of needed return addresses that were unknown, so far. Launches
// from there have the driver's name.
func (t *Tracer) UnknownOrigins() (n uint64, err error) {
	if err = t.objects.OriginsUnknown.Get(&n); err != nil {
		err = fmt.Errorf("read unknown origins of launches: %w", err)
	}
	return n, err
}

// forgetOrigins deletes the origins of ended processes.
func (t *Tracer) forgetOrigins(pids ...uint32) error {
	gone := map[uint32]bool{}
	for _, pid := range pids {
		gone[pid] = true
	}
	var keys []bpf.IngeroOriginKey
	var k bpf.IngeroOriginKey
	var v uint64
	it := t.objects.Origins.Iterate()
	for it.Next(&k, &v) {
		if gone[k.Tgid] {
			keys = append(keys, k)
		}
	}
	var errs []error
	if err := it.Err(); !errors.Is(err, ebpf.ErrIterationAborted) { // what moved meanwhile goes later
		errs = append(errs, err)
	}
	for i := range keys {
		if err := t.objects.Origins.Delete(keys[i]); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete origins of launches: %w", err)
	}
	return nil
}
