// Package proc finds out facts about processes, the libraries that they map and
// the machine, from the proc file system and one perf event per CPU.
//
// It answers which processes are to be traced ([Selector]), which of them make
// CUDA calls ([FS.Scan], [FS.Libraries]), when another one begins to
// ([WatchMaps]), and gives the exact file behind a mapping, deleted or in
// another mount namespace as it may be, in a form to attach probes to
// ([FS.OpenMapped]).
//
// What it reads is written by the processes it looks at, so nothing is trusted:
// sizes are capped, a file is opened only once it is known to be a regular one,
// and a path counts only when it leads to the inode that is mapped. A process
// that ends meanwhile is [ErrGone]. A file system that blocks (FUSE, NFS) blocks
// the caller of OpenMapped for as long; nothing else here waits.
//
// It attaches nothing and keeps no state between calls but in [MapWatcher] and
// [Meter]. Its callers are session (the live source) and the check command.
package proc
