package store

import "path/filepath"

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
