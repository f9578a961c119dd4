package scores

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

type score struct {
	Run int `json:"run"`
	Judged
	Lost int `json:"lost"`
}

func (x *score) Compare(y *score) int { return cmp.Compare(x.Run, y.Run) }

// A file has the last score of each run, in order, and says which version judged how many runs.
func TestAdd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scores")
	for _, x := range []score{
		{2, Judged{"2026-01-02", "b"}, 20},
		{10, Judged{"2026-01-03", ""}, 100},
		{1, Judged{"2026-01-01", "a"}, 10},
		{3, Judged{"2026-01-04", "b"}, 30},
		{10, Judged{"2026-01-05", ""}, 101},
	} {
		Add(t, file, &x)
	}
	const want = `{"run":1,"date":"2026-01-01","commit":"a","lost":10}
{"run":2,"date":"2026-01-02","commit":"b","lost":20}
{"run":3,"date":"2026-01-04","commit":"b","lost":30}
{"run":10,"date":"2026-01-05","lost":101}
`
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("the file has\n%swant\n%s(%v)", got, want, err)
	}
	// A later line replaces an earlier one of the same run, as in two files that were joined.
	if err := os.WriteFile(file, []byte(want+`{"run":2,"date":"2026-01-02","commit":"b","lost":21}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all := Read[*score](t, file)
	if len(all) != 4 || all[1].Lost != 21 {
		t.Errorf("%d scores were read, and run 2 lost %d: want 4 and 21", len(all), all[1].Lost)
	}
	if !Has(all, &score{Run: 3}) || Has(all, &score{Run: 4}) {
		t.Error("runs 1, 2, 3 and 10 are not those found")
	}
	if got, want := Versions(all), "a: 1 (2026-01-01), b: 2 (2026-01-02 to 2026-01-04), unknown commit: 1 (2026-01-05)"; got != want {
		t.Errorf("versions %s, want %s", got, want)
	}
}
