package cli

import "strings"

// statementEnd returns the length of the statement at the start of text, including its
// semicolon, or 0 if it is incomplete. Semicolons in quotes and comments do not count.
func statementEnd(text string) int {
	for i := 0; i < len(text); {
		if text[i] == ';' {
			return i + 1
		}
		n := sqlToken(text[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return 0
}

// sqlToken returns the length of the quoted text or comment at the start of s: 0 if it is
// incomplete, 1 if there is none.
func sqlToken(s string) int {
	after := func(start int, end string) int {
		if n := strings.Index(s[start:], end); n >= 0 {
			return start + n + len(end)
		}
		return 0
	}
	switch {
	case strings.HasPrefix(s, "--"):
		return after(2, "\n")
	case strings.HasPrefix(s, "/*"):
		return after(2, "*/")
	case s[0] == '[':
		return after(1, "]")
	case s[0] == '\'' || s[0] == '"' || s[0] == '`': // a doubled quote is read as two texts in a row
		return after(1, s[:1])
	}
	return 1
}

// blank reports whether text has only white space and comments.
func blank(text string) bool {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if !strings.HasPrefix(text, "--") && !strings.HasPrefix(text, "/*") {
			return false
		}
		n := sqlToken(text)
		if n == 0 {
			return true
		}
		text = text[n:]
	}
	return true
}
