package probes

import (
	"fmt"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// Drops returns the counts of drops by reason, in a fixed order.
func (t *Tracer) Drops() ([]tick.Drop, error) {
	out := make([]tick.Drop, len(dropNames))
	for i := range out {
		out[i].Reason = dropNames[i]
		if err := t.objects.Drops.Lookup(uint32(i), &out[i].Count); err != nil {
			return nil, fmt.Errorf("read drops: %w", err)
		}
	}
	ends, err := t.lostEnds()
	return append(out, ends...), err
}

// Duplicates returns the number of calls that further links have seen so far, once a link: files of
// containers that share an inode each have their own.
func (t *Tracer) Duplicates() (n uint64, err error) {
	if err := t.objects.Drops.Lookup(uint32(bpf.IngeroDropReasonDROP_DUPLICATE_LINK), &n); err != nil {
		return 0, fmt.Errorf("read drops: %w", err)
	}
	return n, nil
}

// dropNames has the names of the reasons in reports, by enum drop_reason.
var dropNames = [bpf.IngeroDropReasonDROP_REASONS]string{
	bpf.IngeroDropReasonDROP_RING_FULL:      "ring-full",
	bpf.IngeroDropReasonDROP_THINNED:        "thinned",
	bpf.IngeroDropReasonDROP_CRITICAL_FULL:  "critical-ring-full",
	bpf.IngeroDropReasonDROP_THREADS_FULL:   "too-many-threads",
	bpf.IngeroDropReasonDROP_COUNTS_FULL:    "too-many-counters",
	bpf.IngeroDropReasonDROP_TARGETS_FULL:   "too-many-processes",
	bpf.IngeroDropReasonDROP_TOO_DEEP:       "nested-too-deep",
	bpf.IngeroDropReasonDROP_DUPLICATE_LINK: "duplicate-link",
	bpf.IngeroDropReasonDROP_WAIT:           "wait-left-out",
	bpf.IngeroDropReasonDROP_WAKERS_FULL:    "waker-quota",
	bpf.IngeroDropReasonDROP_TEXT:           "text-left-out",
	bpf.IngeroDropReasonDROP_STACK:          "stack-left-out",
	bpf.IngeroDropReasonDROP_ORPHAN_RETURN:  "orphan-return",
	bpf.IngeroDropReasonDROP_HOST_FULL:      "host-sums-full",
	bpf.IngeroDropReasonDROP_HOST_BEGUN:     "host-not-followed",
	bpf.IngeroDropReasonDROP_PYTHON:         "python-left-out",
	bpf.IngeroDropReasonDROP_RANGE:          "range-left-out",
	bpf.IngeroDropReasonDROP_KEPT_FULL:      "kept-ring-full",

	bpf.IngeroDropReasonDROP_DEEP_WAKERS_FULL: "waker-deep-quota",
	bpf.IngeroDropReasonDROP_WAKER_NO_ROOM:    "waker-no-room",
	bpf.IngeroDropReasonDROP_WAKER_TOO_FAR:    "waker-too-far",
	bpf.IngeroDropReasonDROP_WAKER_KERNEL:     "waker-kernel-thread",
	bpf.IngeroDropReasonDROP_WAKER_AGENT:      "waker-agent",
	bpf.IngeroDropReasonDROP_CULPRITS_FULL:    "culprit-no-room",
	bpf.IngeroDropReasonDROP_TURNS_FULL:       "culprit-overwritten",
}
