package label

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

// fakeProcess is a process for a book.
type fakeProcess struct {
	start   uint64
	uid     uint32
	inside  uint32            // number in its own namespace
	threads map[uint32]uint32 // by number in its own namespace
	// searched is the number of threads that are read to find one.
	searched int
}

type fakeProcesses map[uint32]*fakeProcess

func (f fakeProcesses) process(pid uint32) (uint64, uint32, bool) {
	p := f[pid]
	if p == nil {
		return 0, 0, false
	}
	return p.start, p.uid, true
}

func (f fakeProcesses) thread(pid, tid uint32, inside bool) (out uint32, searched int, ok bool) {
	for in, out := range f[pid].threads {
		if inside && in == tid || !inside && out == tid {
			return out, f[pid].searched, true
		}
	}
	return 0, f[pid].searched, false
}

func (f fakeProcesses) nested(pid uint32) (uint32, bool) {
	if f[pid] == nil {
		return 0, false
	}
	return f[pid].inside, true
}

func newBook() (*book, fakeProcesses) {
	f := fakeProcesses{
		100: {start: 1, uid: 1000, threads: map[uint32]uint32{101: 101}},
		200: {start: 1, uid: 2000}, 201: {start: 1, uid: 2000},
		300: {start: 1, uid: 1000, inside: 7, threads: map[uint32]uint32{8: 301}},
	}
	return &book{procs: f, trusted: 500, all: map[uint32]*process{}}, f
}

const now = int64(1000e9)

// Each message is accepted with its changes, or refused with a reason.
func TestAccept(t *testing.T) {
	for _, c := range []struct {
		name    string
		from    sender
		message string
		want    string // changes, or the reason
	}{
		{"own process", sender{100, 1000}, `{"set":{"step":"1","epoch":"2"}}`, "100/0 epoch=2@1000 100/0 step=1@1000"},
		{"own thread", sender{100, 1000}, `{"tid":101,"set":{"step":"1"}}`, "100/101 step=1@1000"},
		{"no such thread", sender{100, 1000}, `{"tid":201,"set":{"step":"1"}}`, "label-no-process"},
		{"own user's process", sender{200, 2000}, `{"pid":201,"set":{"step":"1"}}`, "201/0 step=1@1000"},
		{"another user's process", sender{200, 2000}, `{"pid":100,"set":{"step":"1"}}`, "label-denied"},
		{"root", sender{200, 0}, `{"pid":100,"set":{"step":"1"}}`, "100/0 step=1@1000"},
		{"the tracer's user", sender{200, 500}, `{"pid":100,"set":{"step":"1"}}`, "100/0 step=1@1000"},
		{"no such process", sender{200, 0}, `{"pid":999,"set":{"step":"1"}}`, "label-no-process"},
		{"sender has ended", sender{999, 1000}, `{"set":{"step":"1"}}`, "label-sender-ended"},
		{"sender has ended, another process", sender{999, 1000}, `{"pid":100,"set":{"step":"1"}}`, "label-sender-ended"},
		{"sender has ended, root", sender{999, 0}, `{"pid":100,"set":{"step":"1"}}`, "label-sender-ended"},
		{"sender has ended, its number is another user's", sender{200, 1000}, `{"set":{"step":"1"}}`, "label-sender-ended"},
		{"sender has ended, its number is another user's, another process", sender{200, 1000}, `{"pid":100,"set":{"step":"1"}}`, "label-sender-ended"},
		{"in a container", sender{300, 1000}, `{"set":{"step":"1"}}`, "300/0 step=1@1000"},
		{"own number in a container", sender{300, 1000}, `{"pid":7,"tid":8,"set":{"step":"1"}}`, "300/301 step=1@1000"},
		{"another number in a container", sender{300, 0}, `{"pid":100,"set":{"step":"1"}}`, "label-denied"},
		{"earlier", sender{100, 1000}, `{"time":990000000000,"set":{"step":"1"}}`, "100/0 step=1@990"},
		{"too early", sender{100, 1000}, `{"time":989999999999,"set":{"step":"1"}}`, "label-wrong-time"},
		{"in the future", sender{100, 1000}, `{"time":1000000000001,"set":{"step":"1"}}`, "label-wrong-time"},
		{"clear what is not set", sender{100, 1000}, `{"clear":["step"]}`, ""},
		{"clear and set", sender{100, 1000}, `{"set":{"old":"x"}}{"clear":["old"],"set":{"new":"y"}}`, "100/0 old=x@1000 100/0 new=y@1000 100/0 old=@1000"},
		{"a later time first", sender{100, 1000}, `{"set":{"a":"1"}}{"time":995000000000,"set":{"a":"2"}}`, "100/0 a=1@1000 100/0 a=2@1000"},
		{"17 keys", sender{100, 1000}, keys(0, 9) + keys(9, 8), texts(0, 9) + " label-too-many"},
		{"16 keys", sender{100, 1000}, keys(0, 9) + keys(9, 7), texts(0, 9) + " " + texts(9, 7)},
		{"16 keys of a thread", sender{100, 1000}, keys(0, 16) + strings.Replace(keys(0, 16), "{", `{"tid":101,`, 1), texts(0, 16) + " " + strings.ReplaceAll(texts(0, 16), "100/0", "100/101")},
		{"another 16th key", sender{100, 1000}, keys(0, 16) + `{"clear":["k00"],"set":{"x":"1"}}`, texts(0, 16) + " 100/0 k00=@1000 100/0 x=1@1000"},
		{"17th key of a thread", sender{100, 1000}, keys(0, 16) + `{"tid":101,"set":{"x":"1"}}`, texts(0, 16) + " label-too-many"},
	} {
		b, _ := newBook()
		list, err := parse([]byte(c.message))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for i := range list {
			changes, why := b.accept(c.from, &list[i], now)
			for _, x := range changes {
				got = append(got, fmt.Sprintf("%d/%d %s=%s@%d", x.PID, x.TID, x.Key, x.Value, x.Time/1e9))
			}
			if why != "" {
				got = append(got, string(why))
			}
		}
		if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func keys(from, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%02d":"v"`, from+i))
	}
	return `{"set":{` + strings.Join(all, ",") + `}}`
}

func texts(from, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("100/0 k%02d=v@1000", from+i))
	}
	return strings.Join(all, " ")
}

func TestMessagesThatAreNotValid(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `null`, `[]`, `1`, `{"set":{}}`, `{"set":{"a":1}}`, `{"set":{"A":"1"}}`, `{"set":{"1a":"1"}}`, `{"set":{"":"1"}}`, `{"set":{"a b":"1"}}`,
		`{"set":{"` + strings.Repeat("a", 33) + `":"1"}}`, `{"set":{"a":""}}`, `{"set":{"a":"` + strings.Repeat("v", 129) + `"}}`,
		`{"set":{"a":"x\ny"}}`, `{"set":{"a":"\u0000"}}`, `{"set":{"a":"\u009b"}}`, `{"pid":-1,"set":{"a":"1"}}`, `{"pid":4294967296,"set":{"a":"1"}}`,
		`{"set":{"a":"1"},"uid":0}`, `{"set":{"a":"1"}} x`, `{"clear":["A"]}`, keys(0, 17), strings.Repeat(`{"set":{"a":"1"}}`, 17),
	} {
		if list, err := parse([]byte(text)); err == nil && len(list) > 0 {
			t.Errorf("%s: %+v", text, list)
		}
	}
	if list, err := parse([]byte(`{"set":{"` + strings.Repeat("a", 32) + `":"` + strings.Repeat("v", 128) + `"}}` + "\n" + `{"clear":["a.b_c1"]}` + "\n")); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A process may send 200 changes at once and 100 a second. Another process is not affected.
func TestRate(t *testing.T) {
	b, _ := newBook()
	m := Message{Set: map[string]string{"step": "1"}}
	send := func(from sender, at int64, n int) (accepted int) {
		for range n {
			if _, why := b.accept(from, &m, at); why == "" {
				accepted++
			} else if why != tooFast {
				t.Fatal(why)
			}
		}
		return accepted
	}
	for _, step := range []struct {
		at   int64
		want int
	}{{now, 200}, {now, 0}, {now + 5e8, 50}, {now + 1e9, 50}, {now + 100e9, 200}} {
		if got := send(sender{100, 1000}, step.at, 500); got != step.want {
			t.Errorf("after %d ms: %d messages accepted, want %d", (step.at-now)/1e6, got, step.want)
		}
	}
	if got := send(sender{200, 2000}, now, 1); got != 1 {
		t.Error("another process's message is refused")
	}
}

// A search for a thread counts as more changes the more threads are read.
func TestRateOfSearches(t *testing.T) {
	for searched, want := range map[int]int{1: 18, 255: 18, 256: 10, 4096: 2} {
		b, f := newBook()
		f[300].searched = searched
		accepted := 0
		for range 500 {
			if _, why := b.accept(sender{300, 1000}, &Message{TID: 8, Set: map[string]string{"step": "1"}}, now); why == "" {
				accepted++
			}
		}
		if accepted != want {
			t.Errorf("%d threads read: %d messages accepted, want %d", searched, accepted, want)
		}
	}
}

// A process without labels stays known until its debt for searches is paid back.
func TestDebtForSearches(t *testing.T) {
	b, f := newBook()
	f[300].searched = 4096
	for range 2 { // 171 changes each
		if _, why := b.accept(sender{300, 1000}, &Message{TID: 9, Set: map[string]string{"step": "1"}}, now); why != noProcess {
			t.Fatal(why)
		}
	}
	const until = now + 342e9/perSecond
	for at, want := range map[int64]bool{until: true, until + 1: false} {
		x := *b.all[300]
		c := book{procs: f, all: map[uint32]*process{300: &x}}
		c.sweep(at)
		if got := c.all[300] != nil; got != want {
			t.Errorf("after %d ns it is known: %v, want %v", at-now, got, want)
		}
	}
	b.all[300].take(0, until)
	if got := b.all[300].tokens / 1e9; got != burst {
		t.Errorf("after its debt, it may make %d changes, want %d", got, burst)
	}
}

// One user cannot take the room of all.
func TestUsersHaveTheirOwnRoom(t *testing.T) {
	b, f := newBook()
	m := Message{Set: map[string]string{"step": "1"}}
	for pid := uint32(1000); ; pid++ {
		f[pid] = &fakeProcess{start: 1, uid: 2000}
		if _, why := b.accept(sender{pid, 2000}, &m, now); why != "" {
			if n := pid - 1000; n != maxOfUser || why != tooMany {
				t.Errorf("%s after %d processes", why, n)
			}
			break
		}
	}
	if _, why := b.accept(sender{100, 1000}, &m, now); why != "" {
		t.Error(why)
	}
}

// Labels end with their thread, and with their process, also if another one has its PID.
func TestSweep(t *testing.T) {
	b, f := newBook()
	for _, c := range []struct {
		from sender
		m    Message
	}{
		{sender{100, 1000}, Message{Set: map[string]string{"a": "1"}}}, {sender{100, 1000}, Message{TID: 101, Set: map[string]string{"a": "1", "b": "2"}}},
		{sender{200, 2000}, Message{Set: map[string]string{"a": "1"}}}, {sender{201, 2000}, Message{Set: map[string]string{"a": "1"}}},
	} {
		if _, why := b.accept(c.from, &c.m, now); why != "" {
			t.Fatal(why)
		}
	}
	if got := b.sweep(now); len(got) > 0 {
		t.Errorf("while all live: %+v", got)
	}
	delete(f[100].threads, 101)
	delete(f, 200)
	f[201] = &fakeProcess{start: 2, uid: 2000}
	want := []tick.Label{{Time: now + 1, PID: 100, TID: 101}, {Time: now + 1, PID: 200}, {Time: now + 1, PID: 201}}
	if d := cmp.Diff(want, b.sweep(now+1)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := len(b.all); got != 1 || len(b.all[100].labels) != 1 {
		t.Errorf("%d processes are kept", got)
	}
}

// No message changes more than its bounds allow, whatever it says.
func FuzzAccept(f *testing.F) {
	for _, text := range []string{`{"set":{"step":"1"}}`, `{"pid":7,"tid":8,"time":999000000000,"set":{"a":"b"},"clear":["c"]}`, keys(0, 16) + keys(10, 3), `{"set":{"a":"\ud800"}}`, `{"pid":1e3}`} {
		f.Add([]byte(text), uint32(100), uint32(1000))
		f.Add([]byte(text), uint32(300), uint32(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, pid, uid uint32) {
		if len(text) > MaxMessage {
			return
		}
		list, err := parse(text)
		if err != nil {
			return
		}
		b, procs := newBook()
		for i := range list {
			changes, why := b.accept(sender{pid, uid}, &list[i], now)
			if why != "" && len(changes) > 0 || len(changes) > 2*MaxKeys {
				t.Fatalf("%d changes, refused: %q", len(changes), why)
			}
			for _, x := range changes {
				p := procs[x.PID]
				if p == nil || x.Time > now || x.Time < now-past || !tick.LabelKey(x.Key) || len(x.Value) > tick.MaxLabelValue {
					t.Fatalf("%+v", x)
				}
				if x.PID != pid && uid != 0 && uid != b.trusted && p.uid != uid {
					t.Fatalf("user %d labelled process %d", uid, x.PID)
				}
			}
		}
		for _, p := range b.all {
			names := map[string]bool{}
			for l := range maps.Keys(p.labels) {
				names[l.key] = true
			}
			if len(names) > MaxKeys {
				t.Fatalf("%d keys", len(names))
			}
		}
		for i := range list { // what is valid is written as it was read
			again, err := json.Marshal(&list[i])
			if err != nil {
				t.Fatal(err)
			}
			if read, err := parse(again); err != nil || cmp.Diff(list[i:i+1], read) != "" && len(list[i].Set) > 0 && len(list[i].Clear) > 0 {
				t.Fatalf("%s: %+v, %v", again, read, err)
			}
		}
	})
}
