//go:build interop

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/testkit"
)

// otherAsk is an input of test/mcpclient/client.mjs, and otherReported the output for it.
type otherAsk struct {
	Version   string            `json:"version"`
	URL       string            `json:"url,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Calls     []otherCall       `json:"calls"`
	Resources []string          `json:"resources"`
}

type otherCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type otherReported struct {
	Error                 string // why there is no more
	Version, Instructions string
	Tools                 []struct {
		Name              string
		Schemas, ReadOnly bool
	}
	Calls []struct {
		Name, Text          string
		Refused, Structured bool
	}
	Prompts   []struct{ Name, Text string }
	Resources []struct{ URI, Text string }
}

// otherClient runs the client of the TypeScript SDK, with additional variables. It returns a result
// for each of asks.
func otherClient(t *testing.T, asks []otherAsk, env ...string) (reported []otherReported) {
	t.Helper()
	where, err := exec.Command("../../tools/npm.sh", "test/mcpclient").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // where node looks for modules
	program, err := os.ReadFile("../../test/mcpclient/client.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "client.mjs"), program, 0o600)
	}
	if err == nil {
		err = os.Symlink(strings.TrimSpace(string(where)), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(asks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "client.mjs"))
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.Env = bytes.NewReader(in), &said, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if err := json.Unmarshal(out, &reported); err != nil || len(reported) != len(asks) {
		t.Fatalf("%v in %.300s", err, out)
	}
	return reported
}

// Another protocol implementation gets the same tools, prompts, resources and answers, over both
// transports and with each version.
func TestMCPOtherClient(t *testing.T) {
	testkit.NeedTool(t, "node", "npm")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	db, report, pair := incidentDB(t), testReportFile(t), certified(t)
	_, lockAt := testLock(t.TempDir())
	name, value, _ := strings.Cut(lockAt, "=")
	s := serveBy(t, "mcp", db, later, nil, "--http", ":0", "--test-report", report, "--tls-cert", pair[0], "--tls-key", pair[1])
	own := pipes(t, db, "", "--test-report", report)
	id := own.chainID()
	var calls []otherCall
	for _, c := range mcpCalls {
		args := withChain(c.args, id)
		if args == nil {
			args = map[string]any{}
		}
		calls = append(calls, otherCall{c.name, args})
	}
	resources := []string{"ingero://chains/" + id, "ingero://schema/chains"}
	var asks []otherAsk
	for _, version := range sdk.SupportedProtocolVersions() {
		ask := otherAsk{Version: version, Calls: calls, Resources: resources}
		ask.URL = s.url + "/mcp"
		asks = append(asks, ask)
		ask.URL, ask.Command, ask.Env = "", []string{self, "mcp", "--db", db, "--test-report", report}, map[string]string{name: value}
		asks = append(asks, ask)
	}
	for i, reported := range otherClient(t, asks, "NODE_EXTRA_CA_CERTS="+pair[0]) {
		by := "stdio "
		if asks[i].URL != "" {
			by = "http "
		}
		t.Run(by+asks[i].Version, func(t *testing.T) { reported.check(t, asks[i].Version, own) })
	}
}

// check compares the answers to another client with those to the own client.
func (o *otherReported) check(t *testing.T, version string, own *assistant) {
	t.Helper()
	if o.Error != "" {
		t.Fatal(o.Error)
	}
	if o.Version != version || !strings.Contains(o.Instructions, "Call diagnose first") {
		t.Errorf("it speaks %s, want %s; instructions %.60q", o.Version, version, o.Instructions)
	}
	if len(o.Tools) != len(mcpCalls) || o.Tools[0].Name != "diagnose" {
		t.Errorf("%d tools, want %d", len(o.Tools), len(mcpCalls))
	}
	for _, x := range o.Tools {
		if !x.Schemas || !x.ReadOnly {
			t.Errorf("tool %+v", x)
		}
	}
	for i, c := range mcpCalls {
		got := o.Calls[i]
		if got.Refused != (c.words != "") || !strings.Contains(got.Text, c.words) || got.Structured == got.Refused {
			t.Errorf("%s: %+v", c.name, got)
		}
		if !c.live && c.words == "" {
			if want := own.call(c.name, withChain(c.args, own.chainID())); got.Text != want.text {
				t.Errorf("%s: %s\nwant %s", c.name, got.Text, want.text)
			}
		}
	}
	if len(o.Prompts) < 8 || len(o.Resources) < 5 {
		t.Errorf("%d prompts, %d resources", len(o.Prompts), len(o.Resources))
	}
	for _, p := range o.Prompts {
		if len(p.Text) < 50 || strings.ContainsAny(p.Text, "{}") {
			t.Errorf("prompt %s: %q", p.Name, p.Text)
		}
	}
	for _, r := range o.Resources {
		if len(r.Text) < 50 {
			t.Errorf("resource %s: %q", r.URI, r.Text)
		}
	}
}
