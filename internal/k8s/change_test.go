package k8s

import (
	"encoding/json"
	"strings"
	"testing"
)

// Only a change of the facts that a table has is announced.
func TestOnlyChangesAreAnnounced(t *testing.T) {
	s, o := start(t, nil)
	o.Kubelet = s.URL
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		kind, pod string
		want      bool
	}{
		{"ADDED", trainer, true},
		{"MODIFIED", strings.Replace(trainer, `"101"`, `"102"`, 1), false},
		{"MODIFIED", strings.Replace(trainer, `"Running"`, `"Succeeded"`, 1), true},
		{"DELETED", trainer, true},
		{"DELETED", trainer, false},
	} {
		var p pod
		if err := json.Unmarshal([]byte(tt.pod), &p); err != nil {
			t.Fatal(err)
		}
		x.take(tt.kind, &p)
		got := false
		select {
		case <-x.Changed():
			got = true
		default:
		}
		if got != tt.want {
			t.Errorf("change %d, %s: announced %v, want %v", i, tt.kind, got, tt.want)
		}
	}
}
