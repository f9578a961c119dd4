package govern

import "strings"

// Sights are kinds of facts that causes of lost time are told by, and that a step may
// take away.
type Sights uint16

// The kinds.
const (
	LaunchTimes  Sights = 1 << iota // how long a launch took, and whether it failed
	EachLaunch                      // a record of each launch
	LaunchCounts                    // how many launches there were
	QuickTimes                      // how long a copy, memset, event or query that returns at once took, and its bytes
	EachQuick                       // a record of each of these
	QuickCounts                     // how many of these there were
	HostEvents                      // disks, reclaim, signals and sockets
	Places                          // where in the program a call was made
	PythonLines                     // which Python function made it
	Refusals                        // launches that the runtime refuses, so that the driver has none
)

// takes is what each of [Steps] takes away that a cause is told by.
var takes = map[string]Sights{
	"launches-once":    Refusals,
	"stacks-rare":      Places,
	"records-thin":     EachLaunch | EachQuick,
	"python-off":       PythonLines,
	"launches-counted": LaunchTimes | EachLaunch,
	"stacks-off":       Places | PythonLines,
	"records-least":    EachLaunch | EachQuick,
	"host-off":         HostEvents,
	"calls-counted":    QuickTimes | EachQuick,
	"hot-off":          LaunchTimes | EachLaunch | LaunchCounts | QuickTimes | EachQuick | QuickCounts,
}

// Takes returns what a step takes away: nothing where the name is not known.
func Takes(step string) Sights { return takes[step] }

// sightWords are the words of the kinds, in their order.
var sightWords = [...]string{
	"durations of launches", "single launches", "counts of launches",
	"durations of calls that return at once", "single calls that return at once", "counts of calls that return at once",
	"disks, reclaim, signals and sockets", "places in the program", "Python functions",
	"launches that the runtime refuses",
}

// String names them: "durations of launches, counts of launches".
func (s Sights) String() string {
	var out []string
	for i, w := range sightWords {
		if s&(1<<i) != 0 {
			out = append(out, w)
		}
	}
	return strings.Join(out, "; ")
}
