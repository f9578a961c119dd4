package session_test

import (
	"fmt"
	"slices"
	"time"
)

// spread says what most of the times were, and the worst.
func spread(d []time.Duration) string {
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("median %v, 90 %% %v, worst %v", at(0.5), at(0.9), at(1))
}
