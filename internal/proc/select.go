package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Selector says which processes to trace. The zero value selects none.
type Selector struct {
	PIDs []uint32 // these; UIDs and All then count for nothing
	UIDs []uint32 // those of these users
	All  bool     // everybody's
	// Alone leaves out the descendants that PIDs have at the time of a Scan.
	// Those that come later are for the probes to follow or not.
	Alone bool
	// Only leaves those out of them that it does not want; nil: none. It is asked of
	// processes that map a CUDA library, and not of descendants of PIDs.
	Only func(*Process) bool
}

// Match tells whether the process itself is selected. It does not know of its
// ancestors: Scan does.
func (s *Selector) Match(p *Process) bool {
	if p.Kernel {
		return false
	}
	if len(s.PIDs) > 0 {
		return slices.Contains(s.PIDs, p.PID)
	}
	return s.All || slices.Contains(s.UIDs, p.UID)
}

// Wants is Match for a process of which all facts are known.
func (s *Selector) Wants(p *Process) bool { return s.Match(p) && (s.Only == nil || s.Only(p)) }

// Select makes a selector of what was asked for: PIDs, else the processes of a
// user, by name or number, or "all". When neither is given it selects those of
// the caller, the person on whose behalf the agent runs; all, if that is root.
func Select(ctx context.Context, pids []uint32, user string, caller uint32) (Selector, error) {
	switch {
	case len(pids) > 0 && user != "" && user != "all":
		return Selector{}, errors.New("PIDs and a user cannot be selected at once")
	case len(pids) > 0:
		return Selector{PIDs: slices.Clone(pids)}, nil
	case user == "all", user == "" && caller == 0:
		return Selector{All: true}, nil
	case user == "":
		return Selector{UIDs: []uint32{caller}}, nil
	}
	uid, err := lookupUser(ctx, user)
	if err != nil {
		return Selector{}, err
	}
	return Selector{UIDs: []uint32{uid}}, nil
}

// ErrNoUser says that the machine knows no such user.
var ErrNoUser = errors.New("no such user")

// lookupUser finds a user's number: a number itself, a line of /etc/passwd, or
// what getent knows, which asks directories such as LDAP too.
func lookupUser(ctx context.Context, name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	if strings.ContainsAny(name, ":\n") || strings.HasPrefix(name, "-") {
		return 0, fmt.Errorf("user %q: %w", name, ErrNoUser)
	}
	if passwd, err := os.Open("/etc/passwd"); err == nil {
		uid, ok := findUser(passwd, name)
		_ = passwd.Close() // read only
		if ok {
			return uid, nil
		}
	}
	const patience = 5 * time.Second // a directory server may be far away
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	getent := exec.CommandContext(ctx, "/usr/bin/getent", "passwd", name)
	getent.Env = []string{"LC_ALL=C"}
	getent.WaitDelay = time.Second
	out, err := getent.Output()
	if err == nil {
		if uid, ok := findUser(strings.NewReader(string(out)), name); ok {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("user %q: %w", name, ErrNoUser)
}

// findUser looks for a name among lines in the form of passwd(5).
func findUser(r io.Reader, name string) (uint32, bool) {
	for s := bufio.NewScanner(r); s.Scan(); {
		f := strings.SplitN(s.Text(), ":", 4)
		if len(f) == 4 && f[0] == name {
			uid, err := strconv.ParseUint(f[2], 10, 32)
			return uint32(uid), err == nil
		}
	}
	return 0, false
}
