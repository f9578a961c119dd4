package store

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// SystemDir is where a service or a container keeps its database.
const SystemDir = "/var/lib/ingero"

// Invoker is whoever a database is for: the person who typed sudo, else the
// user of this process.
type Invoker struct {
	UID  uint32
	Home string // "" when there is none
	Sudo bool   // this process is root on the person's behalf
	// System says that SystemDir exists.
	System bool
}

// DefaultPath returns the database to use when none is named:
//
//   - INGERO_DB, where that is set;
//   - /var/lib/ingero/ingero.db for root itself (a service, a container, not
//     sudo) if that directory exists, and for whoever has no home;
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

// newID makes a name that no other session has.
func newID(s *Session) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return SessionID(s.Node, s.Started, random)
}

// SessionID returns the ID of a session, in characters that are safe in a file's
// name. What is random tells sessions of a machine apart that began in the same second.
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
