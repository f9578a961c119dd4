package tick

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Every field has one row, and the row has the field's JSON name.
func TestWhereFields(t *testing.T) {
	var w Where
	fields := reflect.TypeFor[Where]()
	if len(WhereFields) != fields.NumField() {
		t.Fatalf("%d rows for %d fields", len(WhereFields), fields.NumField())
	}
	for i := range WhereFields {
		f := &WhereFields[i]
		if (f.Text == nil) == (f.Number == nil) {
			t.Fatalf("%s: want one of Text and Number", f.Name)
		}
		var at any
		if f.Text != nil {
			at = f.Text(&w)
		} else {
			at = f.Number(&w)
		}
		if at != reflect.ValueOf(&w).Elem().Field(i).Addr().Interface() {
			t.Errorf("row %s is not of field %s", f.Name, fields.Field(i).Name)
		}
		if name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ","); name != f.Name {
			t.Errorf("%s is %s in JSON", f.Name, name)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		n    Number
		json string
		text string
	}{{0, "null", ""}, {Numbered(0), "0", "0"}, {Numbered(7), "7", "7"}, {Numbered(1<<32 - 1), "4294967295", "4294967295"}} {
		b, err := json.Marshal(tt.n)
		if err != nil || string(b) != tt.json {
			t.Errorf("%d became %s, %v; want %s", tt.n, b, err, tt.json)
		}
		back := Numbered(99)
		if err := json.Unmarshal(b, &back); err != nil || back != tt.n {
			t.Errorf("%s became %d, %v; want %d", b, back, err, tt.n)
		}
		if got := tt.n.String(); got != tt.text {
			t.Errorf("got %q, want %q", got, tt.text)
		}
	}
	if b, _ := json.Marshal(Where{Rank: Numbered(0)}); string(b) != `{"rank":0}` {
		t.Errorf("got %s", b)
	}
	for _, bad := range []string{"-1", "4294967296", `"x"`} {
		var n Number
		if err := json.Unmarshal([]byte(bad), &n); err == nil {
			t.Errorf("%s became %d", bad, n)
		}
	}
}

func TestMap(t *testing.T) {
	got := Where{Pod: "a", Master: "b", Rank: Numbered(1)}.Map(strings.ToUpper)
	if want := (Where{Pod: "A", Master: "B", Rank: Numbered(1)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMeetLocally(t *testing.T) {
	for master, want := range map[string]bool{
		"localhost": true, "localhost:29500": true, "127.0.0.1:29500": true, "127.1.2.3": true, "::1": true, "::1:29500": true, "[::1]:29500": true, "0.0.0.0": true, "0.0.0.0:29500": true,
		"": false, ":29500": false, "10.0.0.1:29500": false, "10.0.0.0:1": false, "node1": false, "node127.:1": false, "fd00::1:29500": false, "localhost.example:1": false,
	} {
		if w := (Where{Master: master}); w.MeetLocally() != want {
			t.Errorf("%q: %v, want %v", master, !want, want)
		}
	}
}
