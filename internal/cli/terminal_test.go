package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

func TestPane(t *testing.T) {
	for name, tt := range map[string]struct {
		height int
		do     func(p *pane) error
		want   string
	}{
		"draws": {24, func(p *pane) error { return p.draw("one\ntwo\n") }, "before\none\ntwo"},
		"draws over": {24, func(p *pane) error {
			_ = p.draw("long line one\ntwo\nthree\n")
			return p.draw("1\n2\n")
		}, "before\n1\n2"},
		"keeps what is above": {24, func(p *pane) error {
			_ = p.draw("table\n")
			_ = p.above("notice\n")
			return p.draw("table\n")
		}, "before\nnotice\ntable"},
		"leaves out what does not fit": {4, func(p *pane) error {
			_ = p.draw("1\n2\n3\n4\n5\n")
			return p.draw("1\n2\n3\n4\n5\n")
		}, "before\n1\n2\n... 3 more lines: e"},
		"cuts long lines": {24, func(p *pane) error { return p.draw("0123456789012345678901234\n") }, "before\n0123456789012345678"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &testkit.Screen{Width: 100, Height: 50, Cooked: true}
			if _, err := g.Write([]byte("before\n")); err != nil {
				t.Fatal(err)
			}
			p := &pane{out: g, size: func() (int, int) { return 20, tt.height }}
			if err := tt.do(p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.TrimRight(g.Text(), " \n")); diff != "" {
				t.Errorf("screen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"12345", "12345"},
		{"123456", "12345"},
		{"ä2345ö", "ä2345"},
		{"\x1b[31m123456\x1b[0m", "\x1b[31m12345\x1b[0m"},
		{"\x1b[31m12\x1b[0m", "\x1b[31m12\x1b[0m"},
	} {
		if got := clip(tt.in, 5); got != tt.want {
			t.Errorf("clip(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
