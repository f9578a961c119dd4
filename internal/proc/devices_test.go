package proc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMajors(t *testing.T) {
	const devices = "Character devices:\n  1 mem\n  4 /dev/vc/0\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\nx nvidia\n99999 nvidia\n\n" +
		"Block devices:\n259 nvidia-no\n"
	nvidia := func(name string) bool { return strings.HasPrefix(name, "nvidia") }
	if diff := cmp.Diff([]uint32{195, 195, 510}, parseMajors([]byte(devices), nvidia)); diff != "" {
		t.Errorf("majors (-want +got):\n%s", diff)
	}
	if got := parseMajors(nil, nvidia); got != nil {
		t.Errorf("majors of nothing: %v", got)
	}
}

func TestCharMajorsHere(t *testing.T) {
	got, err := FS{}.CharMajors("mem")
	if err != nil || len(got) != 1 || got[0] != 1 {
		t.Errorf("majors of mem: %v, error %v; want 1", got, err)
	}
}
