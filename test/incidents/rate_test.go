//go:build measure || smoke

package incidents

import (
	"fmt"
	"strconv"
	"strings"
)

// atRate rewrites a script to a rate of launches while the GPU works, with kernels that are shorter
// in proportion. Launches of the script's faults scale by the same factor. Launches with CPU time
// stay.
func atRate(script string, rate int) string {
	ops := strings.Split(script, "; ")
	factor := 0.0
	for i, op := range ops {
		part := strings.Fields(op)
		if len(part) != 3 || strings.TrimLeft(part[0], "~!") != "launch" {
			continue
		}
		count, err := strconv.ParseFloat(part[1], 64)
		us, err2 := strconv.ParseFloat(part[2], 64)
		if err != nil || err2 != nil || us <= 0 {
			continue
		}
		if factor == 0 {
			factor = us * float64(rate) / 1e6
		}
		ops[i] = fmt.Sprintf("%s %.0f %.0f", part[0], max(count*factor, 1), max(us/factor, 1))
	}
	return strings.Join(ops, "; ")
}
