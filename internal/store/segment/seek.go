package segment

// SkipTo skips the segments that their indexes show to be complete before a time (Unix
// nanoseconds). It does not skip segments that cannot be opened. Call it before the first call of
// Next. Damage of skipped segments is not reported.
func (l *Log) SkipTo(from int64) {
	for i := len(l.segs) - 1; i >= l.at; i-- {
		if !l.began(i, from) {
			continue
		}
		l.skipped = true
		if i == l.at {
			return
		}
		if l.leave() != nil {
			return // read-only; Next continues where it is
		}
		l.at, l.sure, l.torn, l.deleted, l.openErrors = i, false, 0, 0, nil
		if err := l.open(); err != nil {
			l.openErrors = append(l.openErrors, err)
		}
		return
	}
}

// began reports whether the first calls of a sealed segment had ended at a time. If so, earlier
// segments are from before that time.
func (l *Log) began(i int, at int64) bool {
	file, err := OpenSegment(l.files, &l.segs[i])
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // read-only
	s, err := openSegment(file, file.Size())
	return err == nil && s.index != nil && len(s.index.calls) > 0 && s.index.calls[0].last <= at
}
