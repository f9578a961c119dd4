package probes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// Doubled tells whether each call of a row that is not refused makes one launch of the driver,
// whose probe then sees the same launch again.
func Doubled(r *events.Row) bool {
	return launches(r) && r.Lib == events.LibCudart && !strings.Contains(r.Name, "MultiDevice")
}

// driverLaunch tells whether a row is such a launch of the driver, or may be.
func driverLaunch(r *events.Row) bool { return launches(r) && r.Lib == events.LibCuda }

func launches(r *events.Row) bool { return r.Class == events.ClassLaunch && !r.EntryOnly }

// Origins says what is done about the return addresses of launches of the driver.
type Origins uint32

// What is done.
const (
	OriginsOff Origins = Origins(bpf.IngeroOriginsUseORIGINS_OFF)
	// OriginsLearn: which operation of the runtime launches from there is learnt, while its
	// probes are in place.
	OriginsLearn Origins = Origins(bpf.IngeroOriginsUseORIGINS_LEARN)
	// OriginsDerive: a launch of the driver that no probe of the runtime saw counts as that
	// operation, too, and has its record. It has to be so before the probes of [Doubled] rows
	// go, and until launches that began without them have come to the driver.
	OriginsDerive Origins = Origins(bpf.IngeroOriginsUseORIGINS_DERIVE)
)

// SetOrigins says what is done from now on.
func (t *Tracer) SetOrigins(to Origins) error {
	if err := t.objects.OriginsMode.Set(uint32(to)); err != nil {
		return fmt.Errorf("tell programs of the origins of launches: %w", err)
	}
	return nil
}

// UnknownOrigins returns how many return addresses were new when they were needed, so far.
// Launches from there have the driver's name.
func (t *Tracer) UnknownOrigins() (n uint64, err error) {
	if err = t.objects.OriginsUnknown.Get(&n); err != nil {
		err = fmt.Errorf("read unknown origins of launches: %w", err)
	}
	return n, err
}

// forgetOrigins forgets what was learnt of processes that have ended.
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
	errs := []error{it.Err()}
	for i := range keys {
		if err := t.objects.Origins.Delete(keys[i]); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget origins of launches: %w", err)
	}
	return nil
}
