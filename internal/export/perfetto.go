package export

import (
	"bufio"
	"io"
	"strings"
)

// Field numbers and values from protos/perfetto/trace of github.com/google/perfetto.
const (
	tracePacket = 1

	packetClocks      = 6
	packetTime        = 8
	packetSequence    = 10
	packetEvent       = 11
	packetInterned    = 12
	packetFlags       = 13
	packetFirst       = 87
	packetClock       = 58
	packetDefaults    = 59
	packetDescriptor  = 60
	flagStateCleared  = 1
	flagNeedsState    = 2
	clockRealtime     = 1 // Unix time
	clocksClock       = 1
	clocksPrimary     = 2
	clockID           = 1
	clockTime         = 2
	internedCategory  = 1
	internedName      = 2
	internedArg       = 3
	internedText      = 29
	internedID        = 1
	internedValue     = 2
	descriptorID      = 1
	descriptorName    = 2
	descriptorProcess = 3
	descriptorThread  = 4
	descriptorParent  = 5
	descriptorCounter = 8
	processPID        = 1
	processCmdline    = 2
	processName       = 6
	threadPID         = 1
	threadTID         = 2
	threadName        = 5
	counterUnit       = 3
	counterUnitName   = 6
	unitSizeBytes     = 3
	eventCategory     = 3
	eventArg          = 4
	eventKind         = 9
	eventName         = 10
	eventTrack        = 11
	eventInteger      = 30
	eventDouble       = 44
	eventFlow         = 47
	eventFlowEnds     = 48
	argName           = 1
	argUnsigned       = 3
	argInteger        = 4
	argPointer        = 7
	argTextID         = 17
)

// eventKinds are the types of events.
var eventKinds = [...]uint64{markBegin: 1, markEnd: 2, markInstant: 3, markCount: 4}

// unitNames are names of units without a number.
var unitNames = [...]string{unitPercent: "%", unitHertz: "Hz", unitCelsius: "C", unitWatt: "W"}

// perfettoSequence is the only sequence of packets: interned names are valid in later packets.
const perfettoSequence = 1

// maxInterned bounds the interned names; beyond it all are cleared.
const maxInterned = 1 << 16

// perfetto writes a Perfetto trace.
type perfetto struct {
	w       *bufio.Writer
	known   map[internKey]uint64
	last    uint64 // last name number; numbers are never reused
	packet  proto
	message proto // an event or a descriptor
	part    proto // a part of message
	fresh   proto // names that are new in this packet
	cleared bool  // the next packet clears all names
	first   bool
}

type internKey struct {
	field int
	text  string
}

func newPerfetto(w io.Writer) *perfetto {
	return &perfetto{w: bufio.NewWriterSize(w, 1<<16), known: map[internKey]uint64{}, cleared: true, first: true}
}

// begin declares that times are Unix time.
func (p *perfetto) begin(at int64) error {
	var clock, snapshot proto
	clock.number(clockID, clockRealtime)
	clock.exact(clockTime, uint64(max(at, 0)))
	snapshot.bytes(clocksClock, clock)
	snapshot.number(clocksPrimary, clockRealtime)
	p.packet.bytes(packetClocks, snapshot)
	return p.send()
}

// send writes the current packet.
func (p *perfetto) send() error {
	p.packet.number(packetSequence, perfettoSequence)
	if len(p.fresh) > 0 {
		p.packet.bytes(packetInterned, p.fresh)
	}
	flags := uint64(flagNeedsState)
	if p.cleared {
		flags |= flagStateCleared
		var defaults proto
		defaults.number(packetClock, clockRealtime)
		p.packet.bytes(packetDefaults, defaults)
	}
	p.packet.number(packetFlags, flags)
	if p.first {
		p.packet.number(packetFirst, 1)
	}
	head := proto(p.message[:0])
	head.bytes(tracePacket, p.packet)
	p.message, p.packet, p.fresh, p.cleared, p.first = head[:0], p.packet[:0], p.fresh[:0], false, false
	if len(p.known) > maxInterned {
		clear(p.known)
		p.cleared = true
	}
	_, err := p.w.Write(head)
	return err
}

// intern returns the number of a text in a field of InternedData.
func (p *perfetto) intern(field int, text string) uint64 {
	k := internKey{field, text}
	id, known := p.known[k]
	if !known {
		p.last++
		id, k.text = p.last, strings.Clone(text)
		p.known[k] = id
		var entry proto
		entry.number(internedID, id)
		entry.text(internedValue, text)
		p.fresh.bytes(field, entry)
	}
	return id
}

func (p *perfetto) track(t *track) error {
	d := &p.message
	*d = (*d)[:0]
	d.number(descriptorID, t.id)
	if t.parent != nil && t.kind != trackProcess {
		d.number(descriptorParent, t.parent.id)
	}
	part := &p.part
	*part = (*part)[:0]
	switch t.kind {
	case trackProcess:
		part.number(processPID, uint64(t.pid))
		if t.cmdline != "" {
			part.text(processCmdline, t.cmdline)
		}
		part.text(processName, t.name)
		d.bytes(descriptorProcess, *part)
	case trackThread:
		part.number(threadPID, uint64(t.pid))
		part.number(threadTID, uint64(t.tid))
		part.text(threadName, t.name)
		d.bytes(descriptorThread, *part)
	case trackCounter:
		d.text(descriptorName, t.name)
		if t.unit == unitBytes {
			part.number(counterUnit, unitSizeBytes)
		} else if name := unitNames[t.unit]; name != "" {
			part.text(counterUnitName, name)
		}
		d.bytes(descriptorCounter, *part)
	default:
		d.text(descriptorName, t.name)
	}
	p.packet.bytes(packetDescriptor, *d)
	return p.send()
}

func (p *perfetto) event(m *mark) error {
	e := &p.message
	*e = (*e)[:0]
	e.number(eventKind, eventKinds[m.kind])
	e.number(eventTrack, m.on.id)
	switch m.kind {
	case markBegin, markInstant:
		for _, c := range m.categories {
			if c != "" {
				e.number(eventCategory, p.intern(internedCategory, c))
			}
		}
		e.number(eventName, p.intern(internedName, m.name))
		for i := range m.args {
			p.part = p.appendArg(p.part[:0], &m.args[i])
			e.bytes(eventArg, p.part)
		}
	case markCount:
		if whole := int64(m.value); float64(whole) == m.value {
			e.exact(eventInteger, uint64(whole))
		} else {
			e.float(eventDouble, m.value)
		}
	}
	for _, f := range m.out {
		e.fixed(eventFlow, f)
	}
	for _, f := range m.in {
		e.fixed(eventFlowEnds, f)
	}
	p.packet.exact(packetTime, uint64(max(m.at, 0)))
	p.packet.bytes(packetEvent, *e)
	return p.send()
}

func (p *perfetto) appendArg(b proto, a *arg) proto {
	b.number(argName, p.intern(internedArg, a.name))
	switch a.kind {
	case argText:
		b.number(argTextID, p.intern(internedText, a.text))
	case argNatural:
		b.exact(argUnsigned, uint64(a.number))
	case argHandle:
		b.exact(argPointer, uint64(a.number))
	default:
		b.exact(argInteger, uint64(a.number))
	}
	return b
}

func (p *perfetto) close() error { return p.w.Flush() }
