package segment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/storetest"
	"ingero/pkg/events"
)

func someFunctions(n int) []events.Function {
	out := make([]events.Function, n)
	for i := range out {
		out[i] = events.Function{Time: int64(1e18) - int64(i)*7, PID: uint32(i % 9), Handle: ^uint64(i * 64), Name: fmt.Sprintf("_Z%d%s", i%500, strings.Repeat("k", i%3000))}
		if i%11 == 0 {
			out[i].Name, out[i].Why = "", events.NoNameEnded
		}
	}
	return out
}

// launched returns a new name for each launched function.
func launched(calls []events.Call) (out []events.Function) {
	seen := map[functionKey]bool{}
	for i := range calls {
		c := &calls[i]
		if k := (functionKey{c.PID, c.Args[0]}); c.Op == storetest.OpLaunch && !seen[k] {
			seen[k] = true
			f := events.Function{PID: c.PID, Handle: c.Args[0], Name: fmt.Sprintf("kernel_%x", c.Args[0])}
			if c.Args[0]/64%5 == 4 {
				f.Name, f.Why = "", events.NoNameUnread
			}
			out = append(out, f)
		}
	}
	return out
}

// Names are read back as written, in frames of bounded size.
func TestFunctionFrames(t *testing.T) {
	m, w := beginLog(t, Head{})
	want := someFunctions(3*frameFunctionsMax + 5)
	w.putFunctions(want)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, m.Bytes())
	var got []events.Function
	var e Entry
	for l.Next(&e) == nil {
		if len(e.Functions) > frameFunctionsMax {
			t.Errorf("%d in a frame", len(e.Functions))
		}
		got = append(got, e.Functions...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// The next segment repeats each handle's latest name.
func TestFunctionsKept(t *testing.T) {
	var k functionsKept
	k.add([]events.Function{{PID: 1, Handle: 1, Name: "a"}, {PID: 2, Handle: 1, Name: "b"}})
	k.add([]events.Function{{PID: 1, Handle: 1, Time: 5, Name: "c"}})
	if d := cmp.Diff([]events.Function{{PID: 1, Handle: 1, Time: 5, Name: "c"}, {PID: 2, Handle: 1, Name: "b"}}, k.list); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for i := range 2 * maxFunctionsKept {
		k.add([]events.Function{{PID: 3, Handle: uint64(i)}})
	}
	if n := len(k.list); n > maxFunctionsKept || n < maxFunctionsKept/2 || len(k.index) != n {
		t.Errorf("%d are kept, %d of them known", n, len(k.index))
	}
	if last := k.list[len(k.list)-1].Handle; last != 2*maxFunctionsKept-1 {
		t.Errorf("the last is %d", last)
	}
}

func FuzzFunctions(f *testing.F) {
	enc, dec := codecs(f)
	f.Add(enc.column(nil, appendFunctions(nil, someFunctions(40))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readFunctions(b, dec)
		if err != nil && list != nil {
			t.Error("an error, and functions")
		}
		if err != nil {
			return
		}
		again, err := readFunctions(enc.column(nil, appendFunctions(nil, list)), dec)
		if err != nil || !cmp.Equal(list, again) && len(list) > 0 {
			t.Errorf("%v: %v, want %v", err, again, list)
		}
	})
}
