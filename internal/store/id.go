package store

import (
	"crypto/rand"
	"fmt"
	"ingero/internal/store/segment"
	"strings"
	"time"
)

// newID returns a unique session ID.
func newID(s *segment.Session) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return SessionID(s.Node, s.Started, random)
}

// SessionID returns a session's ID, in characters that are safe in a file name. The random part
// distinguishes sessions of a machine that began in the same second.
func SessionID(node string, started time.Time, random [4]byte) string {
	node = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, node)
	if len(node) > 64 {
		node = node[:64]
	}
	return fmt.Sprintf("%s-%s-%x", node, started.UTC().Format("20060102T150405"), random)
}
