package symbols

import (
	"strings"

	"ingero/pkg/events"
)

// kind is the effect of a call on function names.
type kind uint8

const (
	kindNone    kind = iota
	kindLaunch       // launches one function
	kindSeveral      // launches several, which are not resolved
	kindDefine       // gives a name to a handle
	kindAlias        // makes a handle from another one
	kindUnload       // unloads the functions of a module or library
)

// unloads are the functions that invalidate all handles of their module or library.
var unloads = map[string]bool{
	"__cudaUnregisterFatBinary": true, "cudaLibraryUnload": true, "cuLibraryUnload": true, "cuModuleUnload": true,
}

// action is the effect of an operation's calls.
type action struct {
	kind   kind
	handle events.Role // the defined or launched handle
	target events.Role // kindAlias: the handle that it is made from
	owner  events.Role // module or library, 0: none
	text   bool        // kindDefine: the name arrives as a text, since its memory may be reused
}

const opLimit = (int(events.SourceNVTX) + 1) << 8

// actions is indexed by operation, because every call is looked up in it.
var actions = func() (out [opLimit]action) {
	for i := range events.Catalog {
		if r := &events.Catalog[i]; int(r.Op) < opLimit {
			out[r.Op] = actionOf(r)
		}
	}
	return out
}()

func actionOf(r *events.Row) (a action) {
	has := func(role events.Role) bool { return r.Has(role) }
	for _, role := range []events.Role{events.RoleModule, events.RoleLibrary} {
		if has(role) {
			a.owner = role
		}
	}
	a.handle = events.RoleFunc
	switch {
	case r.Class == events.ClassLaunch && has(events.RoleFunc):
		a.kind = kindLaunch
	case r.Class == events.ClassLaunch && !has(events.RoleExec) && !strings.HasSuffix(r.Name, "LaunchHostFunc"):
		a.kind = kindSeveral
	case r.Class == events.ClassLaunch:
	case unloads[r.Name]:
		a.kind = kindUnload
	case has(events.RoleName) && (has(events.RoleFunc) || has(events.RoleKernel)):
		a.kind, a.text = kindDefine, r.Text && !r.EntryOnly
		if has(events.RoleKernel) {
			a.handle = events.RoleKernel
		}
	case has(events.RoleFunc) && has(events.RoleKernel):
		a.kind, a.target = kindAlias, events.RoleKernel
		if isOutput(r, events.RoleKernel) {
			a.handle, a.target = events.RoleKernel, events.RoleFunc
		}
	case has(events.RoleFunc) && has(events.RoleParent) && isOutput(r, events.RoleFunc):
		a.kind, a.target = kindAlias, events.RoleParent
	}
	return a
}

// isOutput reports whether the function stores the value of a role.
func isOutput(r *events.Row, role events.Role) bool {
	for _, k := range r.Keep {
		if is, expr := events.SplitRole(k); is == role {
			return strings.HasPrefix(expr, "*")
		}
	}
	return false
}

func actionFor(op events.Op) action {
	if int(op) < opLimit {
		return actions[op]
	}
	return action{}
}

// launches reports whether a call is a launch by the program, not one nested in another launch.
func launches(c *events.Call, k kind) bool {
	if k != kindLaunch && k != kindSeveral {
		return false
	}
	if c.Flags&events.CallNested == 0 {
		return true
	}
	around := actionFor(c.Parent).kind
	return around != kindLaunch && around != kindSeveral
}
