package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/listen"
)

// The kind of a setting is the type of its field: one of these types, string, bool, int,
// time.Duration or []uint32.
type (
	path      string   // "~/" is the caller's home; relative paths start at the layer's directory
	paths     []string // paths separated by colons
	byteCount int64
	names     []string // choices separated by commas
	words     []string // any words without white space, separated by commas
	share     float64  // a fraction of 1, written in percent
	address   string   // listen address for package listen; empty: none
)

// between has the separator of each kind with several values.
var between = map[string]string{"pids": ",", "paths": ":", "names": ",", "words": ","}

// Kind returns the name of the setting's type, for help texts.
func (s *Setting) Kind() string {
	switch s.field(new(Config)).(type) {
	case *path:
		return "path"
	case *paths:
		return "paths"
	case *names:
		return "names"
	case *words:
		return "words"
	case *byteCount:
		return "size"
	case *share:
		return "percent"
	case *address:
		return "address"
	case *bool:
		return "bool"
	case *int:
		return "number"
	case *time.Duration:
		return "duration"
	case *[]uint32:
		return "pids"
	}
	return "text"
}

// set parses a value into the setting's field. base is the directory for relative paths.
func (s *Setting) set(c *Config, value string, in Inputs, base string) (err error) {
	switch to := s.field(c).(type) {
	case *string:
		if len(s.Choices) > 0 && !slices.Contains(s.Choices, value) {
			return fmt.Errorf("it must be one of %s", strings.Join(s.Choices, ", "))
		}
		*to = value
	case *path:
		*to, err = parsePath(value, in.Home, base)
	case *paths:
		*to, err = parsePaths(value, in.Home, base)
	case *names:
		*to, err = parseNames(value, s.Choices)
	case *words:
		*to, err = parseWords(value)
	case *share:
		*to, err = parseShare(value)
	case *address:
		*to, err = parseAddress(value)
	case *bool:
		*to, err = parseBool(value)
	case *int:
		*to, err = parseInt(value)
	case *byteCount:
		*to, err = parseBytes(value)
	case *time.Duration:
		*to, err = ParseDuration(value)
	case *[]uint32:
		*to, err = parsePIDs(value)
	default:
		panic(fmt.Sprintf("config: %s has a field of type %T", s.Key, to))
	}
	if err != nil || s.check == nil {
		return err
	}
	return s.check(c)
}

func parsePath(s, home, base string) (path, error) {
	if strings.ContainsRune(s, 0) {
		return "", errors.New("it must not contain a NUL byte")
	}
	if rest, ok := strings.CutPrefix(s, "~/"); ok {
		if home == "" {
			return "", errors.New("the user has no home directory")
		}
		return path(filepath.Join(home, rest)), nil
	}
	if s == "" || filepath.IsAbs(s) || base == "" {
		return path(s), nil
	}
	return path(filepath.Join(base, s)), nil
}

func parsePaths(s, home, base string) (out paths, err error) {
	for part := range strings.SplitSeq(s, ":") {
		if part == "" {
			continue
		}
		p, err := parsePath(part, home, base)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, string(p)) {
			out = append(out, string(p))
		}
	}
	return out, nil
}

func parseNames(s string, choices []string) (out names, err error) {
	for part := range strings.SplitSeq(s, ",") {
		switch part = strings.TrimSpace(part); {
		case part == "" || slices.Contains(out, part):
		case !slices.Contains(choices, part):
			return nil, fmt.Errorf("%q is not one of %s", part, strings.Join(choices, ", "))
		default:
			out = append(out, part)
		}
	}
	return out, nil
}

func parseWords(s string) (out words, err error) {
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == 127 }) {
			return nil, errors.New("it must not contain white space; separate values with commas")
		}
		if part != "" && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out, nil
}

// parseShare parses a percentage: 3%, 0.5%, 3 or 0. The percent sign is optional.
func parseShare(s string) (share, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(n >= 0 && n <= 100) {
		return 0, errors.New("it must be from 0% to 100%")
	}
	return share(n / 100), nil
}

func parseAddress(s string) (address, error) {
	if s == "" {
		return "", nil
	}
	_, err := listen.Parse(s)
	return address(s), err
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("it must be true or false")
}

func parseInt(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, errors.New("it must be a whole number")
	}
	return int(n), nil
}

func parsePIDs(s string) ([]uint32, error) {
	if s == "" {
		return nil, nil
	}
	var out []uint32
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 31)
		if err != nil || n == 0 {
			return nil, errors.New("it must be PIDs separated by commas")
		}
		if !slices.Contains(out, uint32(n)) {
			out = append(out, uint32(n))
		}
	}
	return out, nil
}

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"k", 10}, {"m", 20}, {"g", 30}, {"t", 40}}

// parseBytes parses sizes such as 4096, 500m, 10g, 8MiB. Units are powers of 1024.
func parseBytes(s string) (byteCount, error) {
	fail := errors.New("it must be a size such as 4096, 500m or 10g")
	digits := strings.ToLower(s)
	shift := uint(0)
	for _, u := range sizeUnits {
		for _, end := range []string{u.suffix + "ib", u.suffix + "b", u.suffix} {
			if rest, ok := strings.CutSuffix(digits, end); ok && shift == 0 {
				digits, shift = rest, u.shift
			}
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, fail
	}
	return byteCount(n << shift), nil
}

var timeUnits = []struct {
	suffix string
	unit   time.Duration
}{
	{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"ms", time.Millisecond},
	{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour},
	{"second", time.Second}, {"seconds", time.Second}, {"sec", time.Second}, {"minute", time.Minute}, {"minutes", time.Minute}, {"min", time.Minute},
	{"hour", time.Hour}, {"hours", time.Hour}, {"day", 24 * time.Hour}, {"days", 24 * time.Hour}, {"week", 7 * 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour},
}

// ParseDuration parses 90s, 1h30m, 2d, 3d12h, 1w, 1.5h, "5 minutes". A day has 24 hours. A number
// needs a unit, except 0. Negative durations are invalid.
func ParseDuration(s string) (time.Duration, error) {
	s = strings.ReplaceAll(s, " ", "")
	if s == "0" {
		return 0, nil
	}
	fail := errors.New("it must be a duration such as 90s, 1h30m, 2d or 1w")
	total := 0.0
	for rest := s; rest != "" || s == ""; {
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, fail
		}
		n, err := strconv.ParseFloat(rest[:end], 64)
		if err != nil {
			return 0, fail
		}
		rest = rest[end:]
		at := slices.IndexFunc(timeUnits, func(u struct {
			suffix string
			unit   time.Duration
		}) bool {
			after, ok := strings.CutPrefix(rest, u.suffix)
			return ok && (after == "" || after[0] >= '0' && after[0] <= '9' || after[0] == '.')
		})
		if at < 0 {
			return 0, fail
		}
		total += n * float64(timeUnits[at].unit)
		rest = rest[len(timeUnits[at].suffix):]
	}
	if total >= math.MaxInt64 {
		return 0, errors.New("it must not exceed 292 years")
	}
	return time.Duration(math.Round(total)), nil
}

// ParseBytes parses a size in the syntax of settings.
func ParseBytes(s string) (int64, error) {
	n, err := parseBytes(s)
	return int64(n), err
}
