package explain

import (
	"strconv"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// EachValue calls f with the known arguments of a call, by the names of the C parameters: numbers
// as int64, or, beyond its range, as text; pointers and handles as hexadecimal text; a dim3 as
// [3]int64.
func EachValue(c *events.Call, f func(name string, value any)) {
	eachArg(c, func(a *arg, v uint64) {
		switch {
		case a.kind == argPointer:
			f(a.name, "0x"+strconv.FormatUint(v, 16))
		case a.kind == argDim3:
			x, y, z := events.UnpackDim3(v)
			f(a.name, [3]int64{int64(x), int64(y), int64(z)})
		case a.kind == argCopyKind && v < uint64(len(copyKinds)):
			f(a.name, copyKinds[v])
		case v > 1<<63-1:
			f(a.name, strconv.FormatUint(v, 10))
		default:
			f(a.name, int64(v))
		}
	})
}

// ChainWords returns the text of a chain: what slowed and by how much, why, and what to do, "" if
// there is nothing.
func ChainWords(c *tick.Chain, t *tick.Tick) (head, cause, fix string) {
	words := wordsFor(c)
	v := victims(t.Processes, &t.Host)(c.PID)
	return headline(c, &words), words.rootCause(c, v), words.fix(c, v)
}
