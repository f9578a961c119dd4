package screen

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// TestMain makes the test binary a guard when it is started as one.
func TestMain(m *testing.M) {
	Enter()
	os.Exit(m.Run())
}

// Input is parsed key by key, in whatever pieces it arrives.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		over bool
		want []Key
		rest string
	}{
		{in: "qS ?", want: []Key{'q', 'S', ' ', '?'}},
		{in: "\x1b[A\x1bOB\x1b[C\x1b[D", want: []Key{Up, Down, Right, Left}},
		{in: "\x1b[5~\x1b[6~\x1b[1~\x1b[F", want: []Key{PageUp, PageDown, Home, End}},
		{in: "\x1b[15~x\x1b[1;5Cy", want: []Key{'x', 'y'}}, // function keys
		{in: "\x1b", rest: "\x1b"},
		{in: "\x1b", over: true, want: []Key{Escape}},
		{in: "\x1bq", want: []Key{Escape, 'q'}},
		{in: "\x1b[", rest: "\x1b["},
		{in: "\x1b[", over: true},
		{in: "\r\n\t\x7f\x0c", want: []Key{Return, Return, Tab, Backspace, Ctrl('L')}},
		{in: "ä漢", want: []Key{'ä', '漢'}},
		{in: "\xc3", rest: "\xc3"},
		{in: "\xff\x00a", want: []Key{'a'}},
	} {
		var got []Key
		b := []byte(tt.in)
		for len(b) > 0 {
			k, n := parse(b, tt.over)
			if n == 0 {
				break
			}
			if b = b[n:]; k != 0 {
				got = append(got, k)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" || string(b) != tt.rest {
			t.Errorf("%q: %q is left, want %q; keys (-want +got):\n%s", tt.in, b, tt.rest, d)
		}
	}
}

// Only changed lines are written, and the terminal then shows the new frame.
func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		name    string
		was, is []string
		written []string // lines
	}{
		{"first", nil, []string{"a", "b"}, []string{"a", "b"}},
		{"same", []string{"a", "b"}, []string{"a", "b"}, nil},
		{"one", []string{"a", "b", "c"}, []string{"a", "X", "c"}, []string{"X"}},
		{"longer", []string{"a"}, []string{"a", "b"}, []string{"b"}},
		{"shorter", []string{"a", "b", "c"}, []string{"a"}, nil},
		{"empty", []string{"a"}, nil, nil},
	} {
		g := &testkit.Screen{Width: 20, Height: 5}
		for _, text := range []string{"rest of before\r\nx\r\ny\r\nz", changes(nil, tt.was), changes(tt.was, tt.is)} {
			if tt.was == nil && text == "" {
				continue
			}
			if _, err := g.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := g.Text(), strings.Join(tt.is, "\n")+"\n"; got != want {
			t.Errorf("%s: it shows %q, want %q", tt.name, got, want)
		}
		text := changes(tt.was, tt.is)
		if n := strings.Count(text, "\x1b[0m\x1b[K"); n != len(tt.written) {
			t.Errorf("%s: %d lines are written, want %d: %q", tt.name, n, len(tt.written), text)
		}
	}
}

// A guard whose program ends restores a held terminal, and prints the runtime's text of a crash.
func TestOrders(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		held     bool
		crash    string
	}{
		{"nothing", "", false, ""},
		{"held", `{"Hold":{"Lflag":7}}` + "\n", true, ""},
		{"freed", `{"Hold":{"Lflag":7}}` + "\n{}\n", false, ""},
		{"held again", `{"Hold":{"Lflag":7}}` + "\n{}\n" + `{"Hold":{"Lflag":7}}` + "\n", true, ""},
		{"crashed", `{"Hold":{"Lflag":7}}` + "\npanic: x\n\ngoroutine 1\n", true, "panic: x\n\ngoroutine 1\n"},
	} {
		crash, o := follow(strings.NewReader(tt.in))
		if (o.Hold != nil) != tt.held || string(crash) != tt.crash || tt.held && o.Hold.Lflag != 7 {
			t.Errorf("%s: %+v, %q", tt.name, o, crash)
		}
	}
}

// A terminal is taken over, then restored with its settings and its former content.
func TestOpen(t *testing.T) {
	x := testkit.NewTerminal(t)
	if _, err := x.Side.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	x.Shows("before")
	settings := x.Settings()
	s, err := Open(x.Side, x.Side)
	if err != nil {
		t.Fatal(err)
	}
	if now := x.Settings(); now.Lflag&(unix.ICANON|unix.ECHO) != 0 || now.Lflag&unix.ISIG == 0 {
		t.Errorf("the settings: %#x", now.Lflag)
	}
	if err := s.Draw([]string{"one", "\x1b[31mtwo"}); err != nil {
		t.Fatal(err)
	}
	if got := x.Shows("two"); got != "one\ntwo\n" {
		t.Errorf("it shows %q", got)
	}
	x.Until("two")
	if err := s.Draw([]string{"one", "three"}); err != nil {
		t.Fatal(err)
	}
	x.Shows("three")
	if got := x.Seen(); strings.Contains(got, "one") {
		t.Errorf("a line is drawn again: %q", got)
	}
	x.Type("ä\x1b[A")
	if a, b := <-s.Keys(), <-s.Keys(); a != 'ä' || b != Up {
		t.Errorf("keys %d, %d", a, b)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := x.Shows("before"); got != "before\n" || x.Settings() != settings || x.Other() {
		t.Errorf("settings or content of the terminal were not restored: %q", got)
	}
}

// A file, a pipe and two different terminals are refused.
func TestNoTerminal(t *testing.T) {
	x, y := testkit.NewTerminal(t), testkit.NewTerminal(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, pair := range map[string][2]*os.File{"two": {x.Side, y.Side}, "input": {null, x.Side}, "output": {x.Side, null}, "null": {null, null}} {
		if s, err := Open(pair[0], pair[1]); err == nil {
			t.Errorf("%s: it is taken", name)
			_ = s.Close()
		}
	}
}
