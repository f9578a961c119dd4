package store

import (
	"encoding/json"
	"strings"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

var sqlInference = "REPLACE INTO inference (session, time_ns, pid, url, since_ns, engine, model, why, remedy, " + InferenceColumns() +
	") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?" + strings.Repeat(", ?", len(tick.InferenceNumbers)+len(tick.InferenceDurations)) + ")"

// InferenceColumns returns the columns of the table inference that hold numbers, then those that
// hold durations.
func InferenceColumns() string {
	var names []string
	for i := range tick.InferenceNumbers {
		names = append(names, tick.InferenceNumbers[i].Name)
	}
	for i := range tick.InferenceDurations {
		names = append(names, tick.InferenceDurations[i].Name)
	}
	return strings.Join(names, ", ")
}

// noteInference queues a tick's reads of inference servers.
func (v *saver) noteInference(t *tick.Tick) {
	v.inference = append(v.inference, t.Inference[:min(len(t.Inference), maxStates-len(v.inference))]...)
}

// reads writes what noteInference has queued.
func (v *saving) reads() error {
	for i := range v.inference {
		x := &v.inference[i]
		args := []any{v.id, x.Time.UnixNano(), x.PID, x.URL, null(segment.UnixNano(x.Since)), x.Engine, x.Model, x.Why, x.Do}
		for j := range tick.InferenceNumbers {
			args = append(args, *tick.InferenceNumbers[j].Value(x))
		}
		for j := range tick.InferenceDurations {
			d := *tick.InferenceDurations[j].Value(x)
			if d == nil {
				args = append(args, nil)
				continue
			}
			text, err := json.Marshal(d)
			if err != nil {
				return err
			}
			args = append(args, string(text))
		}
		if err := v.exec(&sqlInference, args...); err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { v.inference = v.inference[:0] })
	return nil
}
