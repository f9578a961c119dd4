package clickhouse

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A slow cluster gets fewer and larger blocks, and one that refuses them is asked seldom.
func TestPause(t *testing.T) {
	refused := fmt.Errorf("calls: %w", &Refused{Text: "no table"})
	tests := []struct {
		name        string
		every, took time.Duration
		err         error
		want        time.Duration
	}{
		{"a fast cluster", 2 * time.Second, 10 * time.Millisecond, nil, 2 * time.Second},
		{"a cluster with many senders", 2 * time.Second, time.Second, nil, 20 * time.Second},
		{"a cluster that was away", 2 * time.Second, time.Hour, nil, time.Minute},
		{"a pass that failed", 2 * time.Second, 10 * time.Millisecond, errors.New("away"), 2 * time.Second},
		{"a cluster that refuses", 2 * time.Second, time.Second, refused, time.Minute},
		{"a cluster that refuses, seldom asked", time.Hour, time.Second, refused, time.Hour},
		{"an interval above the limits", time.Hour, time.Second, nil, time.Hour},
	}
	for _, tt := range tests {
		o := FollowOptions{Every: tt.every}
		if got := o.pause(tt.took, tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
