package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/export/notify"
	"ingero/internal/redact"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// maxSecret limits the size of a file with a secret, in bytes.
const maxSecret = 4 << 10

// exportNotify sends causes to a webhook.
func exportNotify(_ context.Context, x *exports, c *config.Config) error {
	if c.Trace.Notify.URL == "" {
		return nil
	}
	secret, err := secretOf(c.Trace.Notify.SecretFile, x.getenv("INGERO_NOTIFY_SECRET"))
	if err != nil {
		return &problem{What: "--notify-secret-file: " + err.Error(), Do: "name a file that holds the secret", Code: exitUsage, Err: err}
	}
	s, err := notify.New(notify.Options{URL: c.Trace.Notify.URL, Secret: secret, Body: notice(x.node), Log: x.log})
	if err != nil {
		return &problem{What: "--notify: " + err.Error(), Do: "ingero ... --notify https://hooks.example.com/x", Code: exitUsage, Err: err}
	}
	x.sinks = append(x.sinks, notifySink{s})
	x.onClose = append(x.onClose, s.Close, func() error {
		for _, why := range sortedReasons(s.State().Lost) {
			x.say(fmt.Sprintf("ingero: %s to the webhook were not delivered: %s", counted(s.State().Lost[why], "message"), why))
		}
		return nil
	})
	x.states = append(x.states, func() []wire.Export {
		now := s.State()
		return []wire.Export{{Name: "webhook", To: now.To, Sent: now.Sent, Lost: now.Lost, Problem: now.Problem}}
	})
	signed := ""
	if secret == "" {
		signed = ", not signed: --notify-secret-file"
	}
	x.say("Sending causes to " + s.String() + signed)
	return nil
}

func sortedReasons(m map[string]uint64) (out []string) {
	for why := range m {
		out = append(out, why)
	}
	slices.Sort(out)
	return out
}

// notifySink ignores Close: the sink is closed after the trace, since its receiver may be slow.
type notifySink struct{ *notify.Sink }

// Close implements [tick.Sink].
func (notifySink) Close() error { return nil }

// secretOf reads a secret from a file or, without a path, returns given. It trims spaces.
func secretOf(path, given string) (string, error) {
	if path == "" {
		return strings.TrimSpace(given), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // opened read-only
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && (len(b) > maxSecret || len(strings.TrimSpace(string(b))) == 0) {
		err = fmt.Errorf("%s contains no secret, or more than %d bytes", path, maxSecret)
	}
	return strings.TrimSpace(string(b)), err
}

// notice returns the message for an episode: the JSON line that trace prints, plus the node
// and a text for people. It redacts possible secrets in command lines in every --cmdline mode.
func notice(node string) func(*tick.Episode, *tick.Tick) ([]byte, error) {
	return func(e *tick.Episode, t *tick.Tick) ([]byte, error) {
		safe := *e
		safe.Chain.Culprits = slices.Clone(e.Chain.Culprits)
		for i := range safe.Chain.Culprits {
			x := &safe.Chain.Culprits[i]
			x.Cmdline = strings.Join(redact.Args(strings.Fields(x.Cmdline)), " ")
		}
		return json.Marshal(wire.Notice{Text: node + " " + explain.EpisodeLine(&safe, t, time.UTC), Node: node, Episode: *explain.BuildEpisode(&safe, t)})
	}
}
