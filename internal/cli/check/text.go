package check

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ingero/internal/wire"
)

const (
	nameColumn = 23 // column in which values begin
	width      = 80
)

var marks = map[string]string{OK: "[✓]", Lack: "[!]", Fail: "[✗]"}

// Text formats the report for a person, 80 columns wide. Where something is wrong, words say so
// beside the mark.
func Text(r *wire.Check) string {
	var b strings.Builder
	if r.PID != 0 {
		fmt.Fprintf(&b, "Ingero - what a trace sees of %s (%d)\n\n", clean(r.Comm), r.PID)
	} else {
		b.WriteString("Ingero - System Readiness Check\n\n")
	}
	for i := range r.Lines {
		l := &r.Lines[i]
		head := fmt.Sprintf("  %s %-*s ", marks[l.State], nameColumn-7, l.Name)
		b.WriteString(head)
		paragraph(&b, l.Value, utf8.RuneCountInString(head))
		paragraph(&b, l.Note, 0)
		for _, it := range l.Items {
			if text := itemText(&it); !strings.Contains(l.Value, text) {
				paragraph(&b, text, 0)
			}
		}
		for j := range l.Needs {
			paragraph(&b, needText(&l.Needs[j]), 0)
		}
		paragraph(&b, some("not there", l.Lacks), 0)
		paragraph(&b, some("present but not traced", l.Unprobed), 0)
		if l.Do != "" {
			paragraph(&b, "-> "+l.Do, 0)
		}
	}
	b.WriteByte('\n')
	b.WriteString(verdict(r))
	b.WriteByte('\n')
	return b.String()
}

// some lists the first names of a list of functions.
func some(what string, names []string) string {
	const most = 4
	if len(names) == 0 {
		return ""
	}
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more (--json)", more)
	}
	return fmt.Sprintf("%d %s: %s", len(names), what, list)
}

func verdict(r *wire.Check) string {
	fails, lacks := linesIn(r, Fail), linesIn(r, Lack)
	switch {
	case r.PID != 0 && fails > 0:
		return "ingero cannot trace this process in its current state."
	case r.PID != 0 && lacks > 0:
		return "ingero can trace this process in part: see " + count(lacks, "line") + " above marked " + marks[Lack] + "."
	case r.PID != 0:
		return "ingero can trace this process, except functions listed as not traced."
	case fails > 0:
		return fmt.Sprintf("ingero cannot trace here: see %s above marked %s.", count(fails, "line"), marks[Fail])
	case !r.Tried:
		return "No problem found, but some checks require root:\nsudo ingero check"
	case lacks > 0:
		return fmt.Sprintf("Ready to trace, with limitations: see %s above marked %s.", count(lacks, "line"), marks[Lack])
	}
	return "All checks passed - ready to trace!"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func itemText(it *wire.CheckItem) string {
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

// paragraph writes text in the column of values, wrapped between words. at is the number of
// columns already used in the first line.
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

// clean replaces control characters, since others choose the names that s contains.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
