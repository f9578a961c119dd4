// Package backoff has the delays between the tries of a request that may succeed later. It does not
// decide what to retry, or when to give up. Its callers are internal/k8s, internal/inference and
// the packages of internal/export that send over the network.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delays are growing delays: First, then twice the last, up to Most. It is not safe for concurrent
// use.
type Delays struct {
	First, Most time.Duration
	last        time.Duration // without jitter; 0: none yet
}

// Next returns the next delay, at random up to a fifth shorter or longer. So senders that started at
// once do not retry at once.
func (d *Delays) Next() time.Duration {
	d.last = min(max(d.First, 2*d.last), d.Most)
	return d.last*4/5 + rand.N(d.last*2/5+1)
}

// Sleep waits for a delay. It returns early, with the context's error, when ctx ends.
func Sleep(ctx context.Context, delay time.Duration) error {
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
