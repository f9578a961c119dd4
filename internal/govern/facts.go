package govern

import "strings"

// Facts are kinds of facts that causes of lost time depend on, and that a step may shed.
type Facts uint16

// The kinds.
const (
	LaunchTimes   Facts = 1 << iota // durations of launches, and whether they failed
	EachLaunch                      // a record of each launch
	LaunchCounts                    // counts of launches
	QuickTimes                      // durations and bytes of copies, memsets, events and queries that return at once
	EachQuick                       // a record of each of these
	QuickCounts                     // counts of these
	HostEvents                      // disks, reclaim, signals and sockets
	Places                          // places in the program where calls were made
	PythonLines                     // Python functions that made calls
	Refusals                        // launches refused by the runtime, which never reach the driver
	GraphLaunches                   // in which steps graphs were launched
)

// sheds maps each of [Steps] to the facts that it sheds.
var sheds = map[string]Facts{
	"launches-once":    Refusals,
	"stacks-rare":      Places,
	"records-thin":     EachLaunch | EachQuick,
	"python-off":       PythonLines,
	"launches-counted": LaunchTimes | EachLaunch,
	"stacks-off":       Places | PythonLines,
	"records-least":    EachLaunch | EachQuick,
	"host-off":         HostEvents,
	"calls-counted":    QuickTimes | EachQuick,
	"hot-off":          LaunchTimes | EachLaunch | LaunchCounts | QuickTimes | EachQuick | QuickCounts | GraphLaunches,
}

// Sheds returns the facts that a step sheds: none for an unknown name.
func Sheds(step string) Facts { return sheds[step] }

// factWords describes the kinds, in their order.
var factWords = [...]string{
	"durations of launches", "single launches", "counts of launches",
	"durations of calls that return at once", "single calls that return at once", "counts of calls that return at once",
	"disks, reclaim, signals and sockets", "places in the program", "Python functions",
	"launches that the runtime refuses", "in which steps graphs were launched",
}

// String lists the kinds: "durations of launches, counts of launches".
func (s Facts) String() string {
	var out []string
	for i, w := range factWords {
		if s&(1<<i) != 0 {
			out = append(out, w)
		}
	}
	return strings.Join(out, "; ")
}
