package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "60s": time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour,
		"1w": 168 * time.Hour, "3d12h": 84 * time.Hour, "1.5h": 90 * time.Minute, "500ms": 500 * time.Millisecond,
		"250us": 250 * time.Microsecond, "250µs": 250 * time.Microsecond, "7ns": 7, "1m1ms": time.Minute + time.Millisecond,
		"1 h": time.Hour, "5 minutes": 5 * time.Minute, "1 hour 30 min": 90 * time.Minute, "2 days": 48 * time.Hour,
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := ParseDuration(text); err != nil || got != want {
				t.Errorf("ParseDuration = %v, %v, want %v", got, err, want)
			}
		})
	}
	for _, text := range []string{"", " ", "60", "1h30", "h", "1x", "-1s", "+1s", "1..5h", ".", "1hh", "1y", "5 parsecs", "minutes", "1e3s", "inf", "NaN", "292w1000000000h"} {
		t.Run("bad "+text, func(t *testing.T) {
			if got, err := ParseDuration(text); err == nil {
				t.Errorf("ParseDuration = %v, want an error", got)
			}
		})
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]byteCount{
		"0": 0, "4096": 4096, "500m": 500 << 20, "10g": 10 << 30, "32M": 32 << 20, "8MiB": 8 << 20, "8mb": 8 << 20, "1k": 1024, "2T": 2 << 40,
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := parseBytes(text); err != nil || got != want {
				t.Errorf("parseBytes = %d, %v, want %d", got, err, want)
			}
		})
	}
	for _, text := range []string{"", "m", "1.5g", "-1", "+1", "1 g", "1gg", "1kk", "1b", "8388608t", "0x10", "99999999999999999999"} {
		t.Run("bad "+text, func(t *testing.T) {
			if got, err := parseBytes(text); err == nil {
				t.Errorf("parseBytes = %d, want an error", got)
			}
		})
	}
}

func TestParsePIDs(t *testing.T) {
	for text, want := range map[string][]uint32{"": nil, "7": {7}, "7,8": {7, 8}, " 7 , 8 ": {7, 8}, "8,7,8": {8, 7}} {
		t.Run(text, func(t *testing.T) {
			if got, err := parsePIDs(text); err != nil || !slices.Equal(got, want) {
				t.Errorf("parsePIDs = %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestParsePaths(t *testing.T) {
	for text, want := range map[string]paths{
		"": nil, ":": nil, "/a.so": {"/a.so"}, "/a.so:b.so:~/c.so:/a.so": {"/a.so", "/base/b.so", "/home/x/c.so"},
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := parsePaths(text, "/home/x", "/base"); err != nil || !slices.Equal(got, want) {
				t.Errorf("parsePaths = %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]share{"0": 0, "3%": 0.03, "0.5": 0.005, "100%": 1} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("parseShare(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "-1%", "101", "NaN", "3%%", "x"} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("parseShare(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, seed := range []string{"1h30m", "3d12h", "500m", "8MiB", "7,8", "true", "~/x", "-1", "1.0000000000000000001ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil && d < 0 {
			t.Errorf("duration %v", d)
		}
		if n, err := parseBytes(text); err == nil && n < 0 {
			t.Errorf("size %d", n)
		}
		for i := range Settings {
			_ = Settings[i].set(new(Config), text, Inputs{Home: "/home/x"}, "/base") // an error or a value, no panic
		}
		if p, err := parsePath(text, "/h", "/b"); err == nil && text != "" && !strings.HasPrefix(string(p), "/") {
			t.Errorf("path %q of %q", p, text)
		}
	})
}

func TestParseWords(t *testing.T) {
	for text, want := range map[string]words{"": nil, ",": nil, "a:1": {"a:1"}, "a, http://b:2 ,a": {"a", "http://b:2"}} {
		if got, err := parseWords(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("parseWords(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := parseWords("a b"); err == nil {
		t.Errorf("parseWords = %v, want an error", got)
	}
}
