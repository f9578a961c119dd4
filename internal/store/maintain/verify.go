package maintain

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/wire"
)

// Verified is the result of checking all segments of a database.
type Verified struct {
	wire.Verified
	Broken map[string]bool // sessions with missing calls, other than the first ones
}

// Verify reads and decodes all segments. It reports the number of calls so far to calls, which may
// be nil. It fails only if files cannot be read at all.
func Verify(ctx context.Context, files log.Files, calls func(uint64)) (*Verified, error) {
	k, err := segment.NewChecker(calls)
	if err != nil {
		return nil, err
	}
	v := &Verified{Broken: map[string]bool{}}
	if err := eachSession(files, func(segs []segment.Info) error { return v.session(ctx, k, files, segs) }); err != nil {
		return nil, err
	}
	all, err := files.List()
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if _, ok := segment.Parse(f.Name); !ok && isBad(f.Name) {
			v.Bad = append(v.Bad, f.Name)
		} else if !ok && isLeftover(f.Name) {
			v.Leftovers = append(v.Leftovers, f.Name)
		}
	}
	return v, nil
}

// eachSession calls f with the segments of each session, until f fails.
func eachSession(files log.Files, f func([]segment.Info) error) error {
	segs, err := segment.List(files)
	for err == nil && len(segs) > 0 {
		n := slices.IndexFunc(segs, func(s segment.Info) bool { return s.Session != segs[0].Session })
		if n < 0 {
			n = len(segs)
		}
		err, segs = f(segs[:n]), segs[n:]
	}
	return err
}

// session checks one session's segments.
func (v *Verified) session(ctx context.Context, k *segment.Checker, files log.Files, segs []segment.Info) error {
	var all []*segment.Checked
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		file, err := segment.OpenSegment(files, &s)
		if errors.Is(err, fs.ErrNotExist) { // pruned since
			continue
		}
		if err != nil {
			return err
		}
		c, err := k.Check(s, file, file.Size(), nil)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		all = append(all, c)
	}
	missing := segment.Fit(all)
	for _, c := range all {
		v.Segments, v.Frames, v.Bytes = v.Segments+1, v.Frames+c.Frames, v.Bytes+c.Bytes
		v.Calls, v.Waits, v.Lost = v.Calls+c.Calls, v.Waits+c.Waits, v.Lost+c.Lost
		if !c.Sealed {
			v.Unsealed++
		}
		switch {
		case c.Newer:
			v.Newer = append(v.Newer, c.Name)
		case c.Err != nil && c.Bytes == 0: // a crash during its creation
			v.Torn = append(v.Torn, wire.Damage{File: c.Name, What: "it is empty"})
		case c.Err != nil:
			v.Damage = append(v.Damage, wire.Damage{File: c.Name, Bytes: c.Bytes, Calls: -1, What: "its beginning cannot be read"})
		}
		v.Damage = append(v.Damage, c.Bad...)
		if c.Index != "" {
			v.Damage = append(v.Damage, wire.Damage{File: c.Name, At: c.Intact, What: "its index: " + c.Index})
		}
		if c.Torn > 0 {
			v.Torn = append(v.Torn, wire.Damage{File: c.Name, At: c.Intact, Bytes: c.Torn, What: "its end is truncated"})
		}
		if len(c.Bad) > 0 || c.Err != nil || c.Lost > 0 || c.Unkept > 0 || c.Newer {
			v.Broken[c.Session] = true
		}
	}
	for _, d := range missing {
		v.Broken[segs[0].Session] = true
		v.Damage = append(v.Damage, d)
	}
	return nil
}
