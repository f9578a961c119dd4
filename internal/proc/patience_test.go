package proc

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A read that does not end keeps its goroutine, and delays the other reads by the patience only. The
// process is not read again before that read has ended.
func TestReadEachPastStuckProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 3 * time.Second
		pids := []uint32{1<<30 + 1, 1<<30 + 2, 1<<30 + 3, 1<<30 + 4} // no other test has them
		release := make(chan struct{})
		var reading atomic.Int32
		scan := func() (got []string) {
			readEach(patience, pids, func(pid uint32) (uint32, error) {
				if reading.Add(1); pid%2 == 0 {
					<-release
				}
				return pid - 1<<30, nil
			}, func(pid uint32, v uint32, err error) {
				got = append(got, fmt.Sprint(pid-1<<30, v, errors.Is(err, ErrStuck)))
			})
			return got
		}
		want := []string{"1 1 false", "2 0 true", "3 3 false", "4 0 true"}
		began := time.Now()
		if got, took := scan(), time.Since(began); !slices.Equal(got, want) || took != 2*patience || reading.Load() != 4 {
			t.Errorf("%q in %v with %d reads, want %q in %v with 4", got, took, reading.Load(), want, 2*patience)
		}
		began = time.Now()
		if got, took := scan(), time.Since(began); !slices.Equal(got, want) || took != 0 || reading.Load() != 6 {
			t.Errorf("again: %q in %v with %d reads, want %q at once with 6", got, took, reading.Load(), want)
		}
		close(release)
		synctest.Wait()
		want = []string{"1 1 false", "2 2 false", "3 3 false", "4 4 false"}
		if got := scan(); !slices.Equal(got, want) || reading.Load() != 10 {
			t.Errorf("later: %q with %d reads, want %q with 10", got, reading.Load(), want)
		}
	})
}
