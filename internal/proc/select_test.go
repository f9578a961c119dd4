package proc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectorMatch(t *testing.T) {
	p := Process{PID: 7, UID: 1000}
	for _, tt := range []struct {
		name string
		sel  Selector
		p    Process
		want bool
	}{
		{"nothing", Selector{}, p, false},
		{"its number", Selector{PIDs: []uint32{1, 7}}, p, true},
		{"another number", Selector{PIDs: []uint32{1}}, p, false},
		{"its user", Selector{UIDs: []uint32{1000}}, p, true},
		{"another user", Selector{UIDs: []uint32{0}}, p, false},
		{"all", Selector{All: true}, p, true},
		{"a number outranks all", Selector{PIDs: []uint32{1}, All: true}, p, false},
		{"a kernel thread", Selector{All: true}, Process{PID: 2, Kernel: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.sel.Match(&tt.p); got != tt.want {
				t.Errorf("Match = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	const root, bob = 0, 1000
	for _, tt := range []struct {
		name   string
		pids   []uint32
		user   string
		caller uint32
		want   Selector
		err    string
	}{
		{name: "the caller's", caller: bob, want: Selector{UIDs: []uint32{1000}}},
		{name: "root's means all", caller: root, want: Selector{All: true}},
		{name: "all", user: "all", caller: bob, want: Selector{All: true}},
		{name: "number of a user", user: "4242", caller: bob, want: Selector{UIDs: []uint32{4242}}},
		{name: "name of a user", user: "root", caller: bob, want: Selector{UIDs: []uint32{0}}},
		{name: "PIDs", pids: []uint32{3, 4}, caller: bob, want: Selector{PIDs: []uint32{3, 4}}},
		{name: "PIDs of anybody", pids: []uint32{3}, user: "all", caller: bob, want: Selector{PIDs: []uint32{3}}},
		{name: "PIDs and a user", pids: []uint32{3}, user: "root", caller: bob, err: "at once"},
		{name: "no such user", user: "nobody-has-this-name", caller: bob, err: ErrNoUser.Error()},
		{name: "an option for getent", user: "--help", caller: bob, err: ErrNoUser.Error()},
		{name: "a line of passwd", user: "root:x:0", caller: bob, err: ErrNoUser.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Select(t.Context(), tt.pids, tt.user, tt.caller)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error = %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("selector (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindUser(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\n# note\n\nbob:x:1000:1000::/home/bob:/bin/sh\nodd:x:minus:0\nshort:x:5\n"
	for name, want := range map[string]int{"root": 0, "bob": 1000, "odd": -1, "short": -1, "bo": -1, "": -1} {
		t.Run(name, func(t *testing.T) {
			uid, ok := findUser(strings.NewReader(passwd), name)
			if ok != (want >= 0) || ok && int(uid) != want {
				t.Errorf("findUser = %d, %v, want %d", uid, ok, want)
			}
		})
	}
}
