package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A row keeps its values and their types through JSON.
func TestRowKeepsTypes(t *testing.T) {
	for _, row := range []Row{
		{}, {nil, int64(0), int64(math.MinInt64), int64(math.MaxInt64)},
		{0.0, -1.5, 1e300, 5e-324, 3.0, 1e21}, {"", "a\"b\\ü\n\x00", "{\"hex\":\"00\"}", "1.5"}, {[]byte{}, []byte{0, 255}},
	} {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var got Row
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if text, err := json.Marshal(Row{math.NaN(), math.Inf(-1)}); err != nil || string(text) != "[null,null]" {
		t.Errorf("no numbers: %s, %v", text, err)
	}
	if text, err := json.Marshal(Row{true}); err == nil {
		t.Errorf("a value of another type: %s", text)
	}
}

// Only invalid rows are rejected.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{`[]`, `[null,1,1.5,"a",{"hex":"00ff"}]`, `[{}]`, `[{"hex":"0"}]`, `[[1]]`, `[true]`, `[1e400]`, `[99999999999999999999]`, `{}`, `null`, `[-0]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r, again Row
		if json.Unmarshal(text, &r) != nil {
			return
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(out, second) {
			t.Errorf("%s, then %s (%v)", out, second, err)
		}
	})
}
