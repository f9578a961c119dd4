package events

import "testing"

func TestSplitRole(t *testing.T) {
	for _, tt := range []struct {
		keep, expr string
		role       Role
	}{
		{"bytes:size", "size", RoleBytes},
		{"stream", "stream", RoleStream},
		{"ptr:*devPtr", "*devPtr", RolePtr},
		{"grid:config+0:dim3", "config+0:dim3", RoleGrid},
		{"config+0:dim3", "config+0:dim3", RoleNone},
		{"kind:=3", "=3", RoleKind},
		{"sharedMem", "sharedMem", RoleNone},
		{"", "", RoleNone},
	} {
		if role, expr := SplitRole(tt.keep); role != tt.role || expr != tt.expr {
			t.Errorf("%q: %v, %q, want %v, %q", tt.keep, role, expr, tt.role, tt.expr)
		}
	}
}

func TestEveryRoleHasAName(t *testing.T) {
	seen := map[string]bool{}
	for r := RoleNone + 1; r < roles; r++ {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("role %d is called %q", r, r)
		}
		seen[r.String()] = true
	}
}

func TestValue(t *testing.T) {
	op := func(name string) Op {
		o, ok := OpByName(name)
		if !ok {
			t.Fatal(name)
		}
		return o
	}
	alloc, copied := op("cudaMalloc"), op("cudaMemcpyAsync")
	for _, tt := range []struct {
		name  string
		call  Call
		role  Role
		want  uint64
		known bool
	}{
		{"argument", Call{Op: alloc, Args: [4]uint64{64, 7}}, RoleBytes, 64, true},
		{"result", Call{Op: alloc, Args: [4]uint64{64, 7}}, RolePtr, 7, true},
		{"result of a call that failed", Call{Op: alloc, Args: [4]uint64{64, 7}, Flags: CallFailed}, RolePtr, 0, false},
		{"argument of a call that failed", Call{Op: alloc, Args: [4]uint64{64, 7}, Flags: CallFailed}, RoleBytes, 64, true},
		{"result nobody waited for", Call{Op: alloc, Args: [4]uint64{64, 7}, Flags: CallUnmeasured}, RolePtr, 0, false},
		{"tag", Call{Op: copied, Tag: 1}, RoleKind, 1, true},
		{"zero", Call{Op: copied}, RoleStream, 0, true},
		{"zero that may not have been read", Call{Op: copied, Flags: CallArgsPartial}, RoleStream, 0, false},
		{"no such value", Call{Op: alloc}, RoleStream, 0, false},
		{"no role", Call{Op: alloc}, RoleNone, 0, false},
		{"no such operation", Call{Op: 0xffff}, RoleBytes, 0, false},
		{"of the launch around", Call{Op: op("cuLaunchKernel"), Parent: op("cudaLaunchKernel"), Args: [4]uint64{9}, Flags: CallInherited}, RoleFunc, 9, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, known := tt.call.Value(tt.role); got != tt.want || known != tt.known {
				t.Errorf("%v, %v, want %v, %v", got, known, tt.want, tt.known)
			}
		})
	}
}
