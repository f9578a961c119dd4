package cli

import (
	"fmt"
	"strings"

	"ingero/internal/explain"
	"ingero/internal/tick"
)

// lines renders the page, at most height lines.
func (d *display) lines(s *viewState, o explain.Options, width, height int) []string {
	o.Width, o.Choice, o.Height = width, d.choice, 0
	text := ""
	switch d.page {
	case tablePage:
		above := strings.Count(s.head, "\n")
		if d.first == 0 {
			o.Height = max(height-above, 1)
		}
		text = s.head + explain.Live(&s.tick, s.seen, o)
	case wherePage:
		text = explain.Where(&s.tick, o)
	case processPage:
		text = d.processes(s, height)
	case helpPage:
		text = "Keys\n\n" + keysHelp()
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	d.first = min(d.first, max(0, len(lines)-height))
	return lines[d.first:min(len(lines), d.first+height)]
}

// processes renders the list of processes, scrolled so that the cursor is visible.
func (d *display) processes(s *viewState, height int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-44s%16s%12s\n", "Process: up, down, Return; Esc", "calls", "calls/s")
	calls, last := map[uint32]uint64{}, map[uint32]uint64{}
	for i := range s.tick.Ops {
		o := &s.tick.Ops[i]
		for _, pid := range []uint32{0, o.PID} {
			calls[pid] += o.Sum.Calls
			last[pid] += o.Last.Calls
		}
	}
	all := append([]tick.Process{{Comm: "all processes"}}, targets(s)...)
	room := max(height-1, 1)
	from := max(0, d.cursor-room+1)
	for i := from; i < len(all) && i < from+room; i++ {
		p, mark, rate := &all[i], "  ", "-"
		if i == d.cursor {
			mark = "> "
		}
		name := oneLine(p.Comm)
		if i > 0 {
			name = fmt.Sprintf("%s (%d)", name, p.PID)
		}
		if w := s.tick.Window; w > 0 {
			rate = explain.Count(uint64(float64(last[p.PID])/w.Seconds() + 0.5))
		}
		if !p.Ended.IsZero() {
			rate = "ended"
		}
		fmt.Fprintf(&b, "%s%-44s%16s%12s\n", mark, clip(name, 43), explain.Count(calls[p.PID]), rate)
	}
	return b.String()
}

// state renders the last line: the choices, then as many key hints as fit.
func (d *display) state(s *viewState, o explain.Options, width int) string {
	if d.typing {
		return "filter: " + d.choice.Text + "_   Return keeps the filter, Esc drops it"
	}
	var parts []string
	if d.paused != nil {
		zone := o.Location
		if zone == nil {
			zone = s.tick.Time.Location()
		}
		parts = append(parts, "PAUSED at "+s.tick.Time.In(zone).Format("15:04:05"))
	}
	if d.choice.Order != 0 {
		parts = append(parts, "by "+d.choice.Order.String())
	}
	if d.choice.Text != "" {
		parts = append(parts, fmt.Sprintf("filter %q", d.choice.Text))
	}
	if d.choice.PID != 0 {
		name := ""
		for i := range s.tick.Processes {
			if p := &s.tick.Processes[i]; p.PID == d.choice.PID {
				name = oneLine(p.Comm) + " "
			}
		}
		parts = append(parts, fmt.Sprintf("%s(%d)", name, d.choice.PID))
	}
	line := strings.Join(parts, " · ")
	if o.Color && line != "" {
		line = "\x1b[1m" + line + "\x1b[0m"
	}
	used := len([]rune(strings.Join(parts, " · ")))
	for _, r := range keyRows {
		if r.hint == "" {
			continue
		}
		key, _, _ := strings.Cut(r.name, ",")
		hint := key + " " + r.hint
		if used > 0 {
			hint = "  " + hint
		}
		if used+len(hint) > width {
			break
		}
		line, used = line+hint, used+len(hint)
	}
	return line
}
