package events

func (r *SyscallRow) number() int { return r.X86 }
