package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/testkit"
)

// The layout of raw tapes matches its number: a change of the layout requires a new ABI, and an
// upgrade in package session for the old number.
func TestLayout(t *testing.T) {
	var b strings.Builder
	for _, v := range []any{bpf.IngeroCallRecord{}, bpf.IngeroWaitRecord{}, bpf.IngeroThreadRecord{}, bpf.IngeroTextRecord{},
		bpf.IngeroRangeRecord{}, bpf.IngeroStackRecord{}, bpf.IngeroPyCodeRecord{}, bpf.IngeroProcRecord{}, bpf.IngeroCounts{},
		bpf.IngeroThread{}, bpf.IngeroHostKey{}, bpf.IngeroHostSum{}} {
		describe(&b, reflect.TypeOf(v), "", 0)
	}
	testkit.Golden(t, fmt.Sprintf("abi-%d.txt", ABI), b.String())
}

// describe prints the fields of a type with their offsets.
func describe(b *strings.Builder, x reflect.Type, name string, at uintptr) {
	fmt.Fprintf(b, "%d %d %s %s\n", at, x.Size(), name, x.Kind())
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			if f := x.Field(i); f.Name != "_" {
				describe(b, f.Type, name+"."+f.Name, at+f.Offset)
			}
		}
	case reflect.Array:
		describe(b, x.Elem(), name+"[]", at)
	}
}

// recordOf returns the bytes of a record.
func recordOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func commOf(s string) (c [16]int8) {
	for i := range s {
		c[i] = int8(s[i])
	}
	return c
}

// A thread of layout 2 keeps its state; calls get no stack of their gap.
func TestThreadFrom2(t *testing.T) {
	var now bpf.IngeroThread
	now.Tgid, now.Counted.Op, now.Slot[0], now.Open[0].Rec.Op, now.Open[3].Rec.GapThrottled, now.Launches, now.Wakes = 1, 2, 3, 4, 5, 6, 7
	new := Bytes(&now)
	record := unsafe.Offsetof(bpf.IngeroCallRecord{}.GapStack)
	old := slices.Clone(new)
	for i := len(now.Open) - 1; i >= 0; i-- {
		at := unsafe.Offsetof(now.Open) + uintptr(i)*unsafe.Sizeof(now.Open[0]) + unsafe.Offsetof(now.Open[0].Rec) + record
		old = slices.Delete(old, int(at), int(at)+8)
	}
	at := int(unsafe.Offsetof(now.Counted) + record)
	old = slices.Delete(old, at, at+8)
	got, err := ThreadFrom2(old)
	if err != nil || !bytes.Equal(got, new) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(new), err)
	}
	if _, err := ThreadFrom2(old[1:]); !errors.Is(err, ErrRecord) {
		t.Errorf("cut: %v", err)
	}
}

func TestRenameRecord(t *testing.T) {
	rename := func(was string) string { return "not-" + was + "-but-a-long-name" }
	wait := bpf.IngeroWaitRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_WAIT), State: 1, Ns: 5}
	wait.Who.Comm = commOf("secret")
	b := recordOf(t, &wait)
	RenameRecord(b, rename)
	waits, err := Waits(nil, b, Clock{})
	if err != nil || waits[0].Who.Name.String() != "not-secret-but-" {
		t.Errorf("wait: %v, %v", waits, err)
	}
	life := bpf.IngeroProcRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_FORK), Comm: commOf("secret")}
	b = recordOf(t, &life)
	RenameRecord(b, rename)
	if e, err := Proc(b, Clock{}); err != nil || e.Comm != "not-secret-but-" {
		t.Errorf("life: %+v, %v", e, err)
	}
	end := bpf.IngeroThreadRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_THREAD), Comm: commOf("secret")}
	b = recordOf(t, &end)
	RenameRecord(b, rename)
	if threads, err := ended(nil, b, Clock{}); err != nil || threads[0].Comm != "not-secret-but-" {
		t.Errorf("end: %+v, %v", threads, err)
	}
	call := recordOf(t, &bpf.IngeroCallRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_CALL)})
	was := bytes.Clone(call)
	RenameRecord(call, rename)
	RenameRecord(nil, rename)
	for k := range 256 { // a truncated record has no name
		RenameRecord([]byte{byte(k)}, rename)
	}
	if !bytes.Equal(call, was) {
		t.Error("a call was changed")
	}
}

func TestRecordsWithoutPaths(t *testing.T) {
	code := recordOf(t, &bpf.IngeroPyCodeRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_PY_CODE)})
	if got := WithoutPaths(code); len(got) != 1 || got[0] != code[0] {
		t.Errorf("a code object keeps %d bytes", len(got))
	}
	call := recordOf(t, &bpf.IngeroCallRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_CALL)})
	if got := WithoutPaths(call); !bytes.Equal(got, call) || WithoutPaths(nil) != nil {
		t.Errorf("a call keeps %d bytes", len(got))
	}
}

func TestFill(t *testing.T) {
	was := bpf.IngeroHostSum{Count: 1, Ns: 2, Comm: commOf("x")}
	var now bpf.IngeroHostSum
	if err := Fill(&now, Bytes(&was)); err != nil || now != was {
		t.Errorf("%+v, %v", now, err)
	}
	if err := Fill(&now, Bytes(&was)[1:]); !errors.Is(err, ErrRecord) {
		t.Errorf("cut: %v", err)
	}
}
