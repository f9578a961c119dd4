package python

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"testing"

	"ingero/internal/testkit"
)

// Every instruction of Python's library gets the line that Python itself computes.
func TestLines(t *testing.T) {
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			out, err := exec.Command(testkit.NeedPython(t, version), "testdata/tables.py").Output()
			if err != nil {
				t.Fatal(err)
			}
			functions, instructions := 0, 0
			for l := range bytes.Lines(out) {
				var table string
				var first int32
				var lines []int32
				if err := json.Unmarshal(l, &[3]any{&table, &first, &lines}); err != nil {
					t.Fatal(err)
				}
				b, err := hex.DecodeString(table)
				if err != nil {
					t.Fatal(err)
				}
				functions++
				c := code{lines: b, first: first, pairs: version == "3.10"}
				for i, want := range lines {
					instructions++
					if got := c.line(int32(2 * i)); got != want {
						t.Fatalf("instruction %d of a function from line %d: line %d, want %d\n%s", i, first, got, want, table)
					}
				}
			}
			if instructions < 10000 {
				t.Errorf("only %d instructions", instructions)
			}
			t.Logf("%d functions, %d instructions", functions, instructions)
		})
	}
}

// Before 3.11 a pair is a number of bytes and a line increment. -128 means no line, and changes
// none.
func TestLinePairs(t *testing.T) {
	table := []byte{6, 1, 4, 0x80, 0, 5, 2, 0xfd}
	c := code{lines: table, first: 10, pairs: true}
	for i, want := range []int32{11, 11, 11, 0, 0, 13, 0} {
		if got := c.line(int32(2 * i)); got != want {
			t.Errorf("the instruction at byte %d is of line %d, want %d", 2*i, got, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0x80, 0, 0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}, int32(1), int32(4))
	f.Fuzz(func(t *testing.T, b []byte, first, instr int32) {
		linePairs(b, first, instr)
		lineEntries(b, first, instr)
	})
}
