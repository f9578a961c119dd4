package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogLines(t *testing.T) {
	var b strings.Builder
	log := slog.New(newLogLines(&b, slog.LevelInfo))
	log.Info("discover: found libcudart.so", "path", "/a b/libcudart.so.12", "pid", 7)
	log.Debug("not shown")
	log.Warn("alone")
	log.With("lib", "x").Info("a\nmessage")
	want := []string{`INFO discover: found libcudart.so path="/a b/libcudart.so.12" pid=7`, "WARN alone", "INFO a; message lib=x"}
	got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), &b)
	}
	for i, line := range got {
		at, text, _ := strings.Cut(line, " ")
		if _, err := time.Parse("15:04:05.000", at); err != nil || text != want[i] {
			t.Errorf("line %q, want a time and %q", line, want[i])
		}
	}
}
