package clickhouse

import (
	"testing"

	"ingero/internal/testkit"
)

// A request that fails takes its connection with it: with HTTP/2, the next one would use a dead connection again.
func TestSpeaksHTTP1(t *testing.T) {
	c, err := Open("https://host:8443", Options{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.HTTP1(t, c.o.Client)
}
