package diff

import "testing"

// BenchmarkHour compares an hour of 20,000 calls a second with itself. Building the data takes
// minutes.
func BenchmarkHour(b *testing.B) {
	l := healthy()
	l.seconds, l.launches, l.gpu, l.cpu, l.hog = 3600, 296, 11_000_000, 100_000, 100_000
	path := record(b, l)
	for b.Loop() {
		r := compared(b, path, path, Options{})
		b.ReportMetric(float64(r.Pairs[0].A.Steps), "steps")
	}
}
