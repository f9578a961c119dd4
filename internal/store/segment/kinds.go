package segment

import "ingero/internal/store/log"

// Kinds of a segment's frames. The numbers never change their meaning.
const (
	frameSession log.Kind = iota + 1 // first: JSON
	frameCalls
	frameLives     // process events
	frameTick      // counts
	frameProcess   // JSON; a later one of the same process replaces it
	frameLibrary   // JSON; a later one of the same object replaces it
	frameReport    // JSON
	frameEnd       // last: JSON
	frameWaits     // the waits before or among the calls of the next frame
	frameOther     // JSON: an untraced process, as frameProcess
	frameBlock     // how the next frames' calls and waits interleave with the frames after them
	frameIndex     // last of a sealed segment: where the calls are
	frameLost      // JSON: a repair removed damaged frames here
	frameFunctions // names of GPU functions, each before its calls if known by then
	frameHost      // host activity, before its tick
	frameXid       // JSON: a GPU fault
	frameGPU       // JSON: a GPU's state
	frameStacks    // call stacks, some time after their calls
	frameBatches   // batch sizes of the next frames, up to the next such frame or a tick
	frameFacts     // the next tick's facts that no other frame has
	frameRanges    // NVTX calls
	frameRequests  // requests to servers, before their tick
	frameLabels    // changes of labels
	frameInference // packed JSON: the next tick's reads of inference servers

	frameKinds // one more than the last known kind
)

// latest returns the latest version of a kind's body; the first is 1. A body is written in the
// earliest version that can hold its content.
//
//	calls 2: throttled time
//	calls 3: devices
//	calls 4: how many calls a stack stands for
//	calls 5: launches before a call
//	calls 6: stacks of gaps
//	ticks 2: throttled time, threads
//	lives 2: signals
//	waits 2: stacks of holders of locks
//	waits 3: start times of parties, hops
//	waits 4: how often the GIL had passed
//	waits 5: a second stack
//	batches 2: ranges
//	batches 3: labels
//	facts 2: overhead of tracing
//	facts 3: the least overhead of the probes
//	requests 2: the engine's thread
func latest(k log.Kind) uint8 {
	switch k {
	case frameCalls:
		return 6
	case frameWaits:
		return 5
	case frameFacts, frameBatches:
		return 3
	case frameTick, frameLives, frameRequests:
		return 2
	}
	return 1
}
