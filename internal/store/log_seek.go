package store

// From passes over the segments that were complete before a time (Unix nanoseconds), as
// far as their indexes tell; what is behind them is all returned. It is for before the
// first call of Next. What cannot be opened is not passed over.
func (l *Log) From(from int64) {
	for i := len(l.segs) - 1; i > l.at; i-- {
		if l.began(i, from) {
			if l.leave() != nil {
				return // the file was read only; Next goes on where it is
			}
			l.at, l.sure, l.torn = i, false, 0
			if err := l.open(); err != nil {
				l.told = append(l.told, err)
			}
			return
		}
	}
}

// began tells whether the first calls of a sealed segment had ended at a time, so that
// those before it are of the time before.
func (l *Log) began(i int, at int64) bool {
	file, err := OpenSegment(l.files, &l.segs[i])
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was read only
	s, err := openSegment(file, file.Size())
	return err == nil && s.index != nil && len(s.index.calls) > 0 && s.index.calls[0].last <= at
}
