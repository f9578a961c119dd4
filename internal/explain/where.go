package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
	"ingero/internal/where"
)

// whereText describes briefly where a process runs, safe to show, "" if nothing is known.
func whereText(w *tick.Where) string {
	safe := w.Map(clean)
	return where.Text(&safe)
}

// whereTextByPID is whereText for a PID.
func whereTextByPID(ps []tick.Process, pid uint32) string {
	for i := range ps {
		if ps[i].PID == pid {
			return whereText(&ps[i].Where)
		}
	}
	return ""
}

// pods lists the pods that request GPUs: "ml/train-0 asks for 2 GPUs (Pending)".
func (s *screen) pods(pods []tick.Pod) {
	if len(pods) == 0 {
		return
	}
	const most = 3
	var parts []string
	for i := range pods {
		p := &pods[i]
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(pods)-most))
			break
		}
		text := fmt.Sprintf("%s/%s asks for %s", clean(p.Namespace), clean(p.Name), plural(uint64(max(p.GPUs, 0)), "GPU"))
		if p.Phase != "Running" {
			text += " (" + clean(p.Phase) + ")"
		}
		parts = append(parts, text)
	}
	s.addLine(span{cut("  "+alignLeft("pods", 11)+strings.Join(parts, " · "), s.width), plain})
}
