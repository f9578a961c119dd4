package symbols

import (
	"strings"

	"ingero/pkg/events"
)

// kind is what a call means to the names of functions.
type kind uint8

const (
	kindNone    kind = iota
	kindLaunch       // of one function
	kindSeveral      // of several, which are not looked into
	kindDefine       // a handle gets a name
	kindAlias        // a handle is made of another one
	kindUnload       // functions of a module or library are gone
)

// unloads are the functions behind which no handle of their module or library counts.
var unloads = map[string]bool{
	"__cudaUnregisterFatBinary": true, "cudaLibraryUnload": true, "cuLibraryUnload": true, "cuModuleUnload": true,
}

// action is what to do with calls of an operation.
type action struct {
	kind   kind
	handle events.Role // the one that is defined, or launched
	target events.Role // kindAlias: what it is made of
	owner  events.Role // of module or library, 0 where there is none
	text   bool        // kindDefine: the name comes as a text; where it was it may not be any more
}

const opLimit = (int(events.SourceNVTX) + 1) << 8

// actions are by operation, for this is asked of every call.
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
		if isOut(r, events.RoleKernel) {
			a.handle, a.target = events.RoleKernel, events.RoleFunc
		}
	case has(events.RoleFunc) && has(events.RoleParent) && isOut(r, events.RoleFunc):
		a.kind, a.target = kindAlias, events.RoleParent
	}
	return a
}

// isOut says whether the function stores the value of a role.
func isOut(r *events.Row, role events.Role) bool {
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

// launch says whether a call is a launch by the program, and not one that another
// launch made.
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
