package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"ingero/internal/cli/check"
	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/outfile"
	"ingero/internal/proc"
	"ingero/internal/query"
	"ingero/internal/redact"
)

// bundled is one file of a support bundle.
type bundled struct {
	name, about string
	text        func(*Env, context.Context) (string, error)
}

// bundle lists the files of a support bundle. A bundle has these files and a list of them.
// It contains no calls, stacks, environments or user files.
var bundle = []bundled{
	{"check.txt", "output of ingero check", func(e *Env, ctx context.Context) (string, error) {
		r, err := e.check(ctx, 0)
		return check.Text(&r), err
	}},
	{"check.json", "the same, as JSON", func(e *Env, ctx context.Context) (string, error) { r, err := e.check(ctx, 0); return asText(r, err) }},
	{"version.txt", "versions of ingero, the kernel and the system", (*Env).bundleVersion},
	{"config.json", "each setting and its source, without secrets", (*Env).bundleConfig},
	{"status.json", "state of the running trace", (*Env).bundleStatus},
	{"database.json", "content and size of the database: names, sizes and times, no calls", (*Env).bundleDatabase},
	{"log.txt", "last 500 lines of the service's log", (*Env).bundleLog},
}

// supportBundle writes a bundle to path and prints its list of files.
func (e *Env) supportBundle(ctx context.Context, path string) error {
	var list strings.Builder
	size, err := e.output(path, false, func(f *outfile.File) error {
		z := gzip.NewWriter(f)
		w := tar.NewWriter(z)
		for _, b := range bundle {
			text, err := b.runPart(ctx, e)
			if err != nil {
				text = "not available: " + err.Error() + "\n"
			}
			fmt.Fprintf(&list, "  %-14s %8s  %s\n", b.name, explain.Bytes(int64(len(text))), b.about)
			if err := pack(w, b.name, text); err != nil {
				return err
			}
		}
		if err := pack(w, "contents.txt", list.String()); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		return err
	}
	return e.printf("Wrote %s (%s). It contains only these files; review it before you send it:\n%s"+
		"It includes the names of this machine, of users, processes, directories and libraries.\n", oneLine(path), explain.Bytes(size), list.String())
}

// runPart runs a part with its own timeout of 30 s, so that a part that hangs spoils no other.
func (b *bundled) runPart(ctx context.Context, e *Env) (string, error) {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	return b.text(e, ctx)
}

func pack(w *tar.Writer, name, text string) error {
	h := &tar.Header{Name: "ingero-support/" + name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write([]byte(text))
	return err
}

// clean redacts possible secrets in each line.
func clean(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		indent := len(body) - len(strings.TrimLeft(body, " "))
		b.WriteString(body[:indent] + strings.Join(redact.Args(strings.Split(body[indent:], " ")), " "))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func asText(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text) + "\n", err
}

func (e *Env) bundleVersion(context.Context) (string, error) {
	system, err := os.ReadFile("/etc/os-release")
	if err != nil {
		system = []byte("no /etc/os-release: " + err.Error() + "\n")
	}
	return fmt.Sprintf("%s%s %s/%s, %d CPUs\nLinux %s\n%s", e.Build.line(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), proc.KernelRelease(), system), nil
}

// bundled returns the settings without flags.
func (e *Env) bundled() (*config.Config, error) {
	in, err := e.inputs(&config.Flags{})
	if err != nil {
		return nil, err
	}
	return config.Load(in)
}

func (e *Env) bundleConfig(context.Context) (string, error) {
	c, err := e.bundled()
	if err != nil {
		return "", err
	}
	return asText(e.shownSettings(c, false), nil)
}

// bundleStatus hides the trace's command line and its export targets: with --cmdline=full,
// these may be unredacted.
func (e *Env) bundleStatus(context.Context) (string, error) {
	s, err := readStatus(e.Lock, time.Now())
	if err == nil && s.Trace != nil {
		s.Trace.Command = redact.Hidden
		for i := range s.Trace.Exports {
			s.Trace.Exports[i].To = redact.Hidden
		}
	}
	return asText(s, err)
}

func (e *Env) bundleDatabase(ctx context.Context) (_ string, err error) {
	c, err := e.bundled()
	if err != nil {
		return "", err
	}
	path, err := e.database(c)
	if err != nil {
		return "", err
	}
	r, err := query.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // opened read-only
	i, err := r.Info(ctx)
	if err != nil {
		return "", err
	}
	return asText(infoOf(i), nil)
}

func (e *Env) bundleLog(ctx context.Context) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/usr/bin/journalctl", "--unit=ingero.service", "--lines=500", "--no-pager", "--quiet", "--output=short-iso")
	cmd.Stderr, cmd.Env, cmd.WaitDelay = &stderr, []string{"LC_ALL=C", "SYSTEMD_COLORS=0"}, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("journalctl: %w %s", err, strings.TrimSpace(stderr.String()))
	}
	return orElse(clean(string(out)), "the service has logged nothing\n"), nil
}
