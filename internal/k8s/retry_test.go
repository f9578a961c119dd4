package k8s

import (
	"errors"
	"testing"
	"time"
)

// A watch that worked for hours begins anew at once; queries that fail at once become rare.
func TestRetry(t *testing.T) {
	const least = time.Second
	away := errors.New("connection refused")
	r := newRetry(least)
	var last time.Duration
	for i := range 20 {
		pause, isNew := r.after(0, away)
		if isNew != (i == 0) {
			t.Errorf("failure %d: new %v", i, isNew)
		}
		last = pause
	}
	if last < 10*least {
		t.Errorf("after 20 failures the pause is %s", last)
	}
	if pause, isNew := r.after(time.Hour, away); pause > 2*least || !isNew {
		t.Errorf("after a watch of an hour the pause is %s, new %v", pause, isNew)
	}
	if pause, isNew := r.after(0, nil); pause != least || isNew {
		t.Errorf("after an answer the pause is %s, new %v", pause, isNew)
	}
	if _, isNew := r.after(0, away); !isNew {
		t.Error("a problem after an answer is not new")
	}
}
