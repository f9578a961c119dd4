package check

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	nameColumn = 23 // where values begin
	width      = 80
)

var marks = map[State]string{OK: "[✓]", Lack: "[!]", Fail: "[✗]"}

// Text writes the report for a person, 80 columns wide. The marks have words
// beside them wherever something is wrong.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString("Ingero - System Readiness Check\n\n")
	for i := range r.Lines {
		l := &r.Lines[i]
		head := fmt.Sprintf("  %s %-*s ", marks[l.State], nameColumn-7, l.Name)
		b.WriteString(head)
		paragraph(&b, l.Value, utf8.RuneCountInString(head))
		paragraph(&b, l.Note, 0)
		for _, it := range l.Items {
			if !strings.Contains(l.Value, it.text()) {
				paragraph(&b, it.text(), 0)
			}
		}
		if l.Do != "" {
			paragraph(&b, "-> "+l.Do, 0)
		}
	}
	b.WriteByte('\n')
	b.WriteString(r.verdict())
	b.WriteByte('\n')
	return b.String()
}

func (r *Report) verdict() string {
	fails, lacks := r.Count(Fail), r.Count(Lack)
	switch {
	case fails > 0:
		return fmt.Sprintf("Tracing cannot work here: %s above marked %s.", count(fails, "line"), marks[Fail])
	case !r.Tried:
		return "Nothing found that would keep ingero from tracing, but not all could be tried:\nsudo ingero check"
	case lacks > 0:
		return fmt.Sprintf("Ready to trace; %s above marked %s could be better.", count(lacks, "line"), marks[Lack])
	}
	return "All checks passed - ready to trace!"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (it *Item) text() string {
	switch {
	case it.PID != 0:
		return fmt.Sprintf("PID %d (%s)", it.PID, it.Name)
	case it.MiB != 0:
		return fmt.Sprintf("%s, %d MiB", it.Name, it.MiB)
	case strings.HasPrefix(it.Path, "/dev/"):
		return it.Name
	case it.Path != "":
		return it.Path
	}
	return it.Name
}

// paragraph writes text from the column of values on, broken between words; at
// is how much of the first line is taken already.
func paragraph(b *strings.Builder, text string, at int) {
	if text == "" && at == 0 {
		return
	}
	for _, word := range strings.Fields(clean(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
			b.WriteString(strings.Repeat(" ", nameColumn))
			at = nameColumn
		case at > nameColumn && at+1+n > width:
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(" ", nameColumn))
			at = nameColumn
		case at > nameColumn:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

// clean takes out what could move a terminal's cursor: names come from others.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
