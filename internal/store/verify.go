package store

import (
	"context"
	"errors"
	"ingero/internal/store/log"
	"io/fs"
	"slices"
)

// Verified is the result of checking all segments of a database.
type Verified struct {
	Segments int    `json:"segments"`
	Frames   int    `json:"frames"`
	Calls    uint64 `json:"calls"`
	Waits    uint64 `json:"waits"`
	Bytes    int64  `json:"bytes"`
	// Lost are calls that an earlier repair marked as lost.
	Lost   uint64   `json:"lost_before"`
	Damage []Damage `json:"damage"`
	// Torn are incomplete frames at the ends of segments, after a crash; everything before them is
	// intact.
	Torn []Damage `json:"torn"`
	// Leftovers are unneeded files that a killed process left.
	Leftovers []string `json:"left_over"`
	Bad       []string `json:"kept_by_repair"` // damaged files that repairs have replaced
	// Newer are segments that a newer ingero wrote, in part or completely.
	Newer    []string `json:"newer"`
	Unsealed int      `json:"unsealed"`
	// Broken are the sessions with missing calls, other than the first ones.
	Broken map[string]bool `json:"-"`
}

// Verify reads and decodes all segments. It reports the number of calls so far to calls, which may
// be nil. It fails only if files cannot be read at all.
func Verify(ctx context.Context, files log.Files, calls func(uint64)) (*Verified, error) {
	k, err := newChecker(calls)
	if err != nil {
		return nil, err
	}
	segs, err := Segments(files)
	if err != nil {
		return nil, err
	}
	v := &Verified{Broken: map[string]bool{}}
	for len(segs) > 0 {
		n := slices.IndexFunc(segs, func(s Segment) bool { return s.Session != segs[0].Session })
		if n < 0 {
			n = len(segs)
		}
		if err := v.session(ctx, k, files, segs[:n]); err != nil {
			return nil, err
		}
		segs = segs[n:]
	}
	all, err := files.List()
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if _, ok := parseSegment(f.Name); !ok && isBad(f.Name) {
			v.Bad = append(v.Bad, f.Name)
		} else if !ok && Leftover(f.Name) {
			v.Leftovers = append(v.Leftovers, f.Name)
		}
	}
	return v, nil
}

// session checks one session's segments.
func (v *Verified) session(ctx context.Context, k *checker, files log.Files, segs []Segment) error {
	var all []*checked
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		file, err := OpenSegment(files, &s)
		if errors.Is(err, fs.ErrNotExist) { // pruned since
			continue
		}
		if err != nil {
			return err
		}
		c, err := k.check(s, file, file.Size(), nil)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		all = append(all, c)
	}
	missing := fit(all)
	for _, c := range all {
		v.Segments, v.Frames, v.Bytes = v.Segments+1, v.Frames+c.frames, v.Bytes+c.Bytes
		v.Calls, v.Waits, v.Lost = v.Calls+c.calls, v.Waits+c.waits, v.Lost+c.lost
		if !c.Sealed {
			v.Unsealed++
		}
		switch {
		case c.newer:
			v.Newer = append(v.Newer, c.Name)
		case c.err != nil && c.Bytes == 0: // a crash during its creation
			v.Torn = append(v.Torn, Damage{File: c.Name, What: "it is empty"})
		case c.err != nil:
			v.Damage = append(v.Damage, Damage{File: c.Name, Bytes: c.Bytes, Calls: -1, What: "its beginning cannot be read"})
		}
		v.Damage = append(v.Damage, c.bad...)
		if c.index != "" {
			v.Damage = append(v.Damage, Damage{File: c.Name, At: c.intactBytes, What: "its index: " + c.index})
		}
		if c.torn > 0 {
			v.Torn = append(v.Torn, Damage{File: c.Name, At: c.intactBytes, Bytes: c.torn, What: "its end is truncated"})
		}
		if len(c.bad) > 0 || c.err != nil || c.lost > 0 || c.unkept > 0 || c.newer {
			v.Broken[c.Session] = true
		}
	}
	for _, d := range missing {
		v.Broken[segs[0].Session] = true
		v.Damage = append(v.Damage, d)
	}
	return nil
}
