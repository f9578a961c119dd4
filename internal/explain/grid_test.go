package explain

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

func oddGrid() *Grid {
	return &Grid{Columns: []string{"name", "n", "n", "f\x1b", "b"}, Database: "x.db", Cut: "too many", Notes: []string{"torn"}, Rows: [][]any{
		{"a\x1b[2Jb", int64(math.MaxInt64), int64(-1), 0.1, []byte{0, 255}},
		{"with \"quotes\", and\na line", nil, int64(2), math.NaN(), []byte(nil)},
		{strings.Repeat("long ", 20), int64(3), int64(3), 1234567.8, nil},
	}}
}

func TestGridText(t *testing.T) {
	testkit.Golden(t, "grid.txt", GridText(oddGrid()))
	if got := GridText(&Grid{Columns: []string{"a", "b"}}); got != "a  b\n" {
		t.Errorf("of no rows: %q", got)
	}
	long := strings.Repeat("x", 200)
	if got := GridText(&Grid{Columns: []string{"sql"}, Rows: [][]any{{long}}}); got != "sql\n"+long+"\n" {
		t.Errorf("a value that stands alone is cut: %q", got)
	}
	if got := GridText(&Grid{Columns: []string{"a", "b"}, Rows: [][]any{{long, "y"}}, NoTruncate: true}); !strings.Contains(got, long+"  y\n") {
		t.Errorf("a value is cut in a file: %q", got)
	}
	if got := GridText(&Grid{}); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestGridCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(string(GridCSV(oddGrid())))).ReadAll()
	want := [][]string{
		{"name", "n", "n", "f\x1b", "b"},
		{"a?[2Jb", "9223372036854775807", "-1", "0.1", "00ff"},
		{"with \"quotes\", and\na line", "", "2", "NaN", ""},
		{strings.Repeat("long ", 20), "3", "3", "1.2345678e+06", ""},
	}
	if diff := cmp.Diff(want, rows); err != nil || diff != "" {
		t.Errorf("CSV: %v (-want +got):\n%s", err, diff)
	}
}

func TestGridJSON(t *testing.T) {
	text, err := GridJSON(oddGrid())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Database, Cut  string
		Columns, Notes []string
		Rows           []map[string]any
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if diff := cmp.Diff([]string{"name", "n", "n_2", "f\x1b", "b"}, got.Columns); diff != "" || got.Database != "x.db" || got.Cut != "too many" || len(got.Notes) != 1 {
		t.Errorf("%+v, columns:\n%s", got, diff)
	}
	first := map[string]any{"name": "a\x1b[2Jb", "n": json.Number("9223372036854775807"), "n_2": json.Number("-1"), "f\x1b": json.Number("0.1"), "b": "00ff"}
	if diff := cmp.Diff(first, got.Rows[0]); diff != "" {
		t.Errorf("first row (-want +got):\n%s", diff)
	}
	if got.Rows[1]["n"] != nil || got.Rows[1]["f\x1b"] != nil || len(got.Rows) != 3 {
		t.Errorf("rows: %v", got.Rows)
	}
	if strings.Index(string(text), `"n":`) > strings.Index(string(text), `"n_2":`) {
		t.Error("the columns are out of order")
	}
	if text, err := GridJSON(&Grid{Columns: []string{"a"}}); err != nil || !strings.Contains(string(text), `"rows": []`) {
		t.Errorf("of no rows: %s, %v", text, err)
	}
}

func TestUnique(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "a_2", "a_2_2", "a_2_3"}, unique([]string{"a", "a", "a_2", "a_2"})); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
