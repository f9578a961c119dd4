package notify

import (
	"testing"

	"ingero/internal/testkit"
)

// A request that fails takes its connection with it: with HTTP/2, the next one would use a dead connection again.
func TestSpeaksHTTP1(t *testing.T) {
	var o Options
	fill(&o)
	testkit.HTTP1(t, o.Client)
}
