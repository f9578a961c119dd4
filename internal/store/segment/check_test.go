package segment

import (
	"bytes"
	"testing"
)

// After any bit change, verify and read agree, and a repair resolves the damage.
func TestRepairOfAnyBit(t *testing.T) {
	t.Parallel()
	whole := sealed(t, recordOften(t, 12, 20))
	want, _, err := readAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewChecker(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := Info{Name: "x-000003.iseg", Session: "x", Seq: 3, Sealed: true}
	head := Head{Session: testSession(), Seq: 3, First: 1000}
	for at := 0; at < len(whole); at += 13 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		c, err := k.Check(s, bytes.NewReader(b), int64(len(b)), &head)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Bad) == 0 && c.Index == "" && !c.Newer {
			t.Fatalf("byte %d: nothing is found", at)
		}
		var out bytes.Buffer
		if err := Rewrite(&out, bytes.NewReader(b), c, int64(len(b))); err != nil {
			t.Fatal(err)
		}
		again, err := k.Check(s, bytes.NewReader(out.Bytes()), int64(out.Len()), nil)
		if err != nil || again.Err != nil || len(again.Bad) > 0 || again.Index != "" || again.Torn > 0 {
			t.Fatalf("byte %d: rewritten, %+v, %v", at, again, err)
		}
		if again.Calls != c.Calls || again.Waits != c.Waits || again.Next() != 1000+uint64(len(want.calls)) {
			t.Fatalf("byte %d: %d calls, %d waits, next is %d; want %d, %d, %d", at, again.Calls, again.Waits, again.Next(), c.Calls, c.Waits, 1000+len(want.calls))
		}
	}
}
