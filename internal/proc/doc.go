// Package proc reads facts about processes, their mapped libraries and the machine from the proc
// file system and one perf event per CPU.
//
// It selects the processes to trace ([Selector]), finds those that make CUDA calls ([FS.Scan],
// [FS.Libraries]), and reports when another process maps a CUDA library ([WatchMaps]). It opens the
// exact file behind a mapping so that probes can attach to it, even if the file was deleted or is
// in another mount namespace ([FS.OpenMapped]).
//
// The traced processes control much of what the package reads, so it trusts nothing: sizes are
// capped, only regular files are opened, and a path counts only if it leads to the mapped inode. A
// process that ends meanwhile is [ErrExited]. A blocking file system (FUSE, NFS) blocks the caller
// of OpenMapped; nothing else here waits.
//
// The package attaches nothing. Only [MapWatcher] and [Meter] keep state between calls. Its callers
// are session (the live source) and the check command.
package proc
