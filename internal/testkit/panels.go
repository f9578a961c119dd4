package testkit

import (
	"encoding/json"
	"os"
	"testing"
)

// Panel is a panel of a Grafana dashboard, with its queries.
type Panel struct {
	Title   string
	Targets []struct{ Expr, RawSQL string } // Expr of Prometheus, RawSQL of ClickHouse
}

// Panels returns the panels of a dashboard's file.
func Panels(t testing.TB, file string) []Panel {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var board struct{ Panels []Panel }
	if err := json.Unmarshal(text, &board); err != nil || len(board.Panels) == 0 {
		t.Fatalf("%s: %d panels, %v", file, len(board.Panels), err)
	}
	return board.Panels
}
