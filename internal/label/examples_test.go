package label

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// Each example sends what its page says, called as its framework calls it. The frameworks
// themselves are stubs with the documented names.
func TestExamples(t *testing.T) {
	testkit.NeedTool(t, "python3")
	for _, c := range []struct {
		name, want string
		thread     bool // the labels are of the main thread
	}{
		{"client", "step=120 tenant=a step=", false},
		{"lightning", "epoch=3 step=70 epoch= step=", false},
		{"transformers", "epoch=3 step=70 epoch= step=", false},
		{"ray", "ray.job=01000000 ray.task=c8ef45ccd0112571ffffffffffffffffffffffff01000000 tenant=a", false},
		{"asgi", "request=ID tenant=a request= tenant=", true},
	} {
		s := listen(t, Owner)
		cmd := exec.Command("python3", "-B", "testdata/drive.py", c.name)
		cmd.Env = append(os.Environ(), "INGERO_LABEL_SOCKET="+s.o.Path, "PYTHONPATH=../../examples/labels:testdata/stubs")
		p := testkit.Start(t, cmd)
		p.Line("sent")
		var got []string
		for _, x := range changes(t, s, strings.Count(c.want, "=")) {
			if x.PID != uint32(p.PID()) || c.thread != (x.TID == x.PID) {
				t.Errorf("%s: %+v, want process %d", c.name, x, p.PID())
			}
			if x.Key == "request" && x.Value != "" {
				x.Value = "ID" // a random one
			}
			got = append(got, x.Key+"="+x.Value)
		}
		p.CloseStdin()
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, p.Stderr())
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}
