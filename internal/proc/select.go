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

// Selector selects the processes to trace. The zero value selects none.
type Selector struct {
	PIDs []uint32 // these processes; UIDs and All are then ignored
	UIDs []uint32 // processes of these users
	All  bool     // processes of all users
	// Alone excludes the descendants that PIDs have at the time of a Scan. Whether probes follow
	// later ones is up to the probes.
	Alone bool
	// Only excludes processes for which it returns false; nil excludes none. It is called for
	// processes that map a CUDA library, but not for descendants of PIDs.
	Only func(*Process) bool
}

// Match reports whether the process itself is selected. It ignores ancestors; Scan does not.
func (s *Selector) Match(p *Process) bool {
	if p.Kernel {
		return false
	}
	if len(s.PIDs) > 0 {
		return slices.Contains(s.PIDs, p.PID)
	}
	return s.All || slices.Contains(s.UIDs, p.UID)
}

// Wants is Match for a process with complete facts.
func (s *Selector) Wants(p *Process) bool { return s.Match(p) && (s.Only == nil || s.Only(p)) }

// Select returns a selector for PIDs, or else for a user's processes, by name or number, or "all".
// Without either it selects the processes of the caller, on whose behalf the agent runs; if that is
// root, all processes.
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

// ErrNoUser means that the machine has no such user.
var ErrNoUser = errors.New("no such user")

// lookupUser finds a user's number: the name may be a number, in /etc/passwd, or known to getent,
// which also asks directories such as LDAP.
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

// findUser looks for a name among lines in the format of passwd(5).
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
