package stats

// Floor returns the largest multiple of step that is at most v.
func Floor(v, step int64) int64 {
	m := v % step
	if m < 0 {
		m += step
	}
	return v - m
}
