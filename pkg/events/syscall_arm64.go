package events

func (r *SyscallRow) number() int { return r.ARM64 }
