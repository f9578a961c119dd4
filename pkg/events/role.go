package events

import "strings"

// Role is the meaning of a kept value, independent of its parameter's name, so that analyses of
// calls need not know each function.
type Role uint8

// The roles. A value stored by a function, for example a new handle, has the role of the value; its
// expression (*devPtr) shows that it is a result.
const (
	RoleNone     Role = iota
	RoleBytes         // size of an allocation, a copy, a fill, a range
	RolePtr           // address of an allocation, or of memory that is freed, filled or registered
	RoleDst           // of a copy
	RoleSrc           // of a copy
	RolePitch         // bytes from one row to the next
	RoleHeight        // rows
	RoleStream        // 0 is the default stream
	RoleFunc          // launched function: a host function, a CUfunction, a cudaKernel_t
	RoleGrid          // packed by [PackDim3]
	RoleBlock         // likewise
	RoleEvent         // cudaEvent_t
	RoleGraph         // cudaGraph_t
	RoleExec          // cudaGraphExec_t
	RoleDevice        // ordinal
	RoleContext       // CUcontext
	RolePool          // memory pool
	RoleHandle        // of physical memory (CUmemGenericAllocationHandle)
	RoleModule        // CUmodule
	RoleLibrary       // CUlibrary
	RoleKernel        // CUkernel, cudaKernel_t that is looked up, not launched
	RoleName          // address of a name; the text is in a [Text]
	RoleComm          // ncclComm_t
	RoleCommID        // first 64 bits of the ncclUniqueId, which are random
	RoleRank          // of this process in a communicator
	RoleRanks         // size of a communicator
	RolePeer          // the other rank, or the root
	RoleElements      // of a collective
	RoleKind          // cudaMemcpyKind
	RoleDatatype      // ncclDataType_t | ncclRedOp_t << 16
	RoleFlags
	RoleColor  // of ncclCommSplit
	RoleParent // source of the new handle: the cloned graph, the split communicator
	RoleImage  // address of loaded code
	roles
)

var roleNames = [roles]string{
	RoleBytes: "bytes", RolePtr: "ptr", RoleDst: "dst", RoleSrc: "src", RolePitch: "pitch", RoleHeight: "height", RoleStream: "stream",
	RoleFunc: "func", RoleGrid: "grid", RoleBlock: "block", RoleEvent: "event", RoleGraph: "graph", RoleExec: "exec",
	RoleDevice: "device", RoleContext: "context", RolePool: "pool", RoleHandle: "handle", RoleModule: "module",
	RoleLibrary: "library", RoleKernel: "kernel", RoleName: "name", RoleComm: "comm", RoleCommID: "commid", RoleRank: "rank",
	RoleRanks: "ranks", RolePeer: "peer", RoleElements: "elements", RoleKind: "kind", RoleDatatype: "datatype",
	RoleFlags: "flags", RoleColor: "color", RoleParent: "parent", RoleImage: "image",
}

// String returns the name that rows use, "" for RoleNone.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return ""
}

var roleByName = func() map[string]Role {
	out := map[string]Role{}
	for r := RoleNone + 1; r < roles; r++ {
		out[roleNames[r]] = r
	}
	return out
}()

// SplitRole splits a kept value into its role and its expression: "bytes:size". A parameter named
// like a role has that role: "stream".
func SplitRole(keep string) (Role, string) {
	if name, expr, ok := strings.Cut(keep, ":"); ok && roleByName[name] != RoleNone {
		return roleByName[name], expr
	}
	return roleByName[keep], keep
}

// tagValue is the index of a row's Tag among its values.
const tagValue = MaxArgs

// rolePlace has the index of each role's value in a row: 1 + the index, 0 for none.
type rolePlace struct {
	at  [roles]uint8
	out [MaxArgs]bool // stored by the function: known after success
}

// rolePlaces is indexed by Op, because it is used for every call.
var rolePlaces [int(SourceNVTX+1) << 8]*rolePlace

func rolesOf(op Op) *rolePlace {
	if int(op) < len(rolePlaces) {
		return rolePlaces[op]
	}
	return nil
}

func placeRoles(r *Row) *rolePlace {
	p := &rolePlace{}
	for i, k := range r.Keep {
		role, expr := SplitRole(k)
		p.at[role] = uint8(i + 1)
		p.out[i] = strings.HasPrefix(expr, "*")
	}
	if role, _ := SplitRole(r.Tag); r.Tag != "" {
		p.at[role] = tagValue + 1
	}
	return p
}

// Has reports whether calls of the row carry a value of the role.
func (r *Row) Has(role Role) bool {
	p := rolesOf(r.Op)
	return p != nil && role != RoleNone && p.at[role] != 0
}

// Value returns the value that a call carries in a role. known is false if the row has no such
// value or user memory could not be read. A value that the function stores is also unknown if the
// call failed or its return was not watched.
func (c *Call) Value(role Role) (v uint64, known bool) {
	op := c.Op
	if c.Flags&CallInherited != 0 {
		op = c.Parent
	}
	p := rolesOf(op)
	if p == nil || role == RoleNone || p.at[role] == 0 {
		return 0, false
	}
	at := p.at[role] - 1
	if at == tagValue {
		v = uint64(c.Tag)
	} else {
		v = c.Args[at]
		if p.out[at] && c.Flags&(CallFailed|CallUnmeasured) != 0 {
			return 0, false
		}
	}
	return v, v != 0 || c.Flags&CallArgsPartial == 0
}
