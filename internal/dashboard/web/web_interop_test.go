//go:build interop

package web

import (
	"bytes"
	"os/exec"
	"testing"

	"ingero/internal/testkit"
)

// TestLogic runs the tests of the page's own logic: formatting of numbers and times, the view and
// its address, roll-calls, trees of flame graphs.
func TestLogic(t *testing.T) {
	testkit.NeedTool(t, "node", "npm")
	out, err := exec.CommandContext(t.Context(), "../../../tools/web.sh", "test").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("# fail 0")) || bytes.Contains(out, []byte("# pass 0\n")) {
		t.Errorf("no tests were run:\n%s", out)
	}
}
