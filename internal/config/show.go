package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"ingero/internal/redact"
)

// Value is the current value of a setting.
type Value struct {
	*Setting
	Text string // in file syntax, with possible secrets redacted
	From string // source, as in Config.From; "": the default
}

// Values returns the current values of all settings, in table order.
func (c *Config) Values() []Value {
	var out []Value
	for i := range Settings {
		s := &Settings[i]
		out = append(out, Value{Setting: s, Text: s.hide(s.text(c)), From: c.From[s.Key]})
	}
	return out
}

// Differ returns the settings with different values in a and b, in table order.
func Differ(a, b *Config) []*Setting {
	var out []*Setting
	for i := range Settings {
		if s := &Settings[i]; s.text(a) != s.text(b) {
			out = append(out, s)
		}
	}
	return out
}

// Shown returns the setting's value as text, with possible secrets redacted.
func (s *Setting) Shown(c *Config) string { return s.hide(s.text(c)) }

// text returns the setting's value in file syntax.
func (s *Setting) text(c *Config) string {
	switch v := s.field(c).(type) {
	case *string:
		return *v
	case *path:
		return string(*v)
	case *address:
		return string(*v)
	case *paths:
		return strings.Join(*v, between["paths"])
	case *names:
		return strings.Join(*v, between["names"])
	case *words:
		return strings.Join(*v, between["words"])
	case *share:
		return strconv.FormatFloat(float64(*v)*100, 'g', 6, 64) + "%"
	case *byteCount:
		return sizeText(int64(*v))
	case *time.Duration:
		return durationText(*v)
	case *[]uint32:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(*v), " ", between["pids"]), "[]")
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		return strconv.Itoa(*v)
	}
	panic("config: no text for " + s.Key)
}

// sizeText formats a size in the largest unit that divides it.
func sizeText(n int64) string {
	text := strconv.FormatInt(n, 10)
	for _, u := range sizeUnits {
		if n != 0 && n%(1<<u.shift) == 0 {
			text = strconv.FormatInt(n>>u.shift, 10) + u.suffix
		}
	}
	return text
}

// durationText formats a duration without its zero parts.
func durationText(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}

// hide redacts possible secrets in a value: the user, password and query of URLs, and the path
// of URLs of Secret settings.
func (s *Setting) hide(text string) string {
	switch s.field(new(Config)).(type) {
	case *string, *words, *address:
	default:
		return text
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = redact.Args([]string{part})[0]
		head, rest, isURL := strings.Cut(part, "://")
		if isURL {
			if s.Secret {
				if host, path, ok := strings.Cut(rest, "/"); ok && path != "" {
					rest = host + "/" + redact.Hidden
				}
			}
			if address, _, ok := strings.Cut(rest, "?"); ok {
				rest = address + "?" + redact.Hidden
			}
			part = head + "://" + rest
		}
		parts[i] = part
	}
	return strings.Join(parts, ",")
}

// Check validates the settings more thoroughly than Load. It returns the files that it read and
// all errors in files, environment and flags. A missing file that a setting names is an error
// too.
func Check(in Inputs) (files []string, problems []*Error) {
	in.fill()
	c, err := in.defaults()
	if err != nil {
		return nil, []*Error{asError(err)}
	}
	layers := [][]assignment{pick(in.environment(), configKey), pick(in.flags(), configKey)}
	if err := c.apply(in, layers...); err != nil {
		problems = append(problems, asError(err))
	}
	layers = nil
	for _, f := range in.places(c.file) {
		layer, there, errs := in.readFile(f.name, f.absent)
		if there {
			files = append(files, f.name)
		}
		problems = append(problems, errs...)
		layers = append(layers, layer)
	}
	for _, layer := range append(layers, in.environment(), in.flags()) {
		if err := c.exclude(in, layer); err != nil {
			problems = append(problems, asError(err))
		}
		for _, a := range layer {
			if e := a.put(c, in); e != nil {
				problems = append(problems, e)
				continue
			}
			c.From[a.to.Key] = a.at
		}
	}
	return files, append(problems, c.absent()...)
}

func asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{At: "settings", What: err.Error(), Err: err}
	}
	return e
}

// absent returns the errors of settings that name unreadable files or invalid URLs.
func (c *Config) absent() (out []*Error) {
	for i := range Settings {
		s := &Settings[i]
		text := s.text(c)
		if s.Reads && text != "" {
			files := []string{text}
			if s.Kind() == "paths" {
				files = strings.Split(text, between["paths"])
			}
			for _, name := range files {
				if err := readable(name); err != nil {
					out = append(out, &Error{At: c.From[s.Key], What: fmt.Sprintf("%s: %v", s.Key, err), Do: s.Help, Err: err})
				}
			}
		}
		if strings.Contains(text, "://") {
			for _, u := range strings.Split(text, ",") {
				if _, err := url.Parse(u); err != nil { // the error would quote the URL with its secrets
					out = append(out, &Error{At: c.From[s.Key], What: s.Key + ": invalid URL", Do: s.Help})
				}
			}
		}
	}
	return out
}

// readable returns the reason why a file cannot be read. It does not open pipes.
func readable(name string) error {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", name)
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}
