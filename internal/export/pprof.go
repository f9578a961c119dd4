package export

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"ingero/internal/query"
)

// Field numbers in profile.proto of github.com/google/pprof.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileMapping     = 3
	profileLocation    = 4
	profileFunction    = 5
	profileString      = 6
	profileTime        = 9
	profileDuration    = 10
	profileDefaultType = 14

	sampleLocations = 1
	sampleValues    = 2

	mappingFile  = 5
	mappingKnown = 7 // has functions, then files, lines, inlined ones: no symbolization needed
	mappingLast  = 10

	locationMapping = 2
	locationLine    = 4

	lineFunction = 1
	lineNumber   = 2

	functionName = 2
	functionFile = 4

	numberID = 1 // of mappings, locations and functions

	typeType = 1
	typeUnit = 2
)

// profile is a profile under construction. Numbers start at 1, except those of texts.
type profile struct {
	proto
	texts     map[string]uint64
	list      []string
	modules   map[string]uint64
	functions map[[2]string]uint64
	locations map[stackFrame]uint64
}

func (p *profile) text(s string) uint64 {
	id, ok := p.texts[s]
	if !ok {
		id = uint64(len(p.list))
		p.texts[s], p.list = id, append(p.list, s)
	}
	return id
}

func (p *profile) module(path string) uint64 {
	id, ok := p.modules[path]
	if !ok && path != "" {
		id = uint64(len(p.modules) + 1)
		p.modules[path] = id
		var m proto
		m.number(numberID, id)
		m.number(mappingFile, p.text(path))
		for field := mappingKnown; field <= mappingLast; field++ {
			m.number(field, 1)
		}
		p.bytes(profileMapping, m)
	}
	return id
}

func (p *profile) function(name, file string) uint64 {
	key := [2]string{name, file}
	id, ok := p.functions[key]
	if !ok {
		id = uint64(len(p.functions) + 1)
		p.functions[key] = id
		var m proto
		m.number(numberID, id)
		m.number(functionName, p.text(name))
		m.number(functionFile, p.text(file))
		p.bytes(profileFunction, m)
	}
	return id
}

func (p *profile) location(f stackFrame) uint64 {
	id, ok := p.locations[f]
	if !ok {
		id = uint64(len(p.locations) + 1)
		p.locations[f] = id
		var line, m proto
		line.number(lineFunction, p.function(f.name, f.file))
		line.number(lineNumber, uint64(max(f.line, 0)))
		m.number(numberID, id)
		m.number(locationMapping, p.module(f.module))
		m.bytes(locationLine, line)
		p.bytes(profileLocation, m)
	}
	return id
}

// sample adds a stack.
func (p *profile) sample(row *stackRow) {
	var ids, values []byte
	for i := len(row.frames) - 1; i >= 0; i-- { // innermost first
		ids = binary.AppendUvarint(ids, p.location(row.frames[i]))
	}
	for i := range StackValues {
		values = binary.AppendUvarint(values, StackValues[i].of(row.sum))
	}
	var m proto
	m.bytes(sampleLocations, ids)
	m.bytes(sampleValues, values)
	p.bytes(profileSample, m)
}

// Pprof writes the matching calls' stacks as a pprof profile with all values.
func Pprof(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter) (*StackResult, error) {
	rows, res, err := stackRows(ctx, r, f)
	if err != nil {
		return nil, err
	}
	p := &profile{texts: map[string]uint64{"": 0}, list: []string{""}, modules: map[string]uint64{},
		functions: map[[2]string]uint64{}, locations: map[stackFrame]uint64{}}
	for i := range StackValues {
		var m proto
		m.number(typeType, p.text(StackValues[i].Type))
		m.number(typeUnit, p.text(StackValues[i].Unit))
		p.bytes(profileSampleType, m)
	}
	for i := range rows {
		p.sample(&rows[i])
	}
	if !f.From.IsZero() && f.To.After(f.From) {
		p.number(profileTime, uint64(f.From.UnixNano()))
		p.number(profileDuration, uint64(f.To.Sub(f.From)/time.Nanosecond))
	}
	p.number(profileDefaultType, p.text(StackValues[0].Type))
	for _, s := range p.list {
		p.bytes(profileString, []byte(s))
	}
	z := gzip.NewWriter(w)
	_, err = z.Write(p.proto)
	return res, errors.Join(err, z.Close())
}
