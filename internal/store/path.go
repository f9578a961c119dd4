package store

import (
	"crypto/rand"
	"fmt"
	"ingero/internal/store/segment"
	"path/filepath"
	"strings"
	"time"
)

// SystemDir is the directory for the database of a service or a container.
const SystemDir = "/var/lib/ingero"

// Invoker is the user that a database is for: the person who typed sudo, else this process's user.
type Invoker struct {
	UID  uint32
	Home string // "": none
	Sudo bool   // this process is root on the person's behalf
	// System reports whether SystemDir exists.
	System bool
}

// DefaultPath returns the database to use when none is named:
//
//   - INGERO_DB, if set;
//   - /var/lib/ingero/ingero.db for root itself (a service, a container, not
//     sudo) if that directory exists, and for users without a home;
//   - .ingero/ingero.db in the person's home otherwise.
func DefaultPath(getenv func(string) string, who Invoker) string {
	const file = "ingero.db"
	if p := getenv("INGERO_DB"); p != "" {
		return p
	}
	service := who.UID == 0 && !who.Sudo && who.System
	if service || who.Home == "" || who.Home == "/" {
		return filepath.Join(SystemDir, file)
	}
	return filepath.Join(who.Home, ".ingero", file)
}

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
