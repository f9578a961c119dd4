package export_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// perfettoSchema are the permitted fields of protos/perfetto/trace in google/perfetto: number,
// type, name. Other fields cannot be decoded.
const perfettoSchema = `
Trace                 1 *TracePacket packet
TracePacket           6 ClockSnapshot clock_snapshot
TracePacket           8 uint64 timestamp
TracePacket          10 uint32 trusted_packet_sequence_id
TracePacket          11 TrackEvent track_event
TracePacket          12 InternedData interned_data
TracePacket          13 uint32 sequence_flags
TracePacket          58 uint32 timestamp_clock_id
TracePacket          59 TracePacketDefaults trace_packet_defaults
TracePacket          60 TrackDescriptor track_descriptor
TracePacket          87 bool first_packet_on_sequence
TracePacketDefaults  58 uint32 timestamp_clock_id
ClockSnapshot         1 *Clock clocks
ClockSnapshot         2 uint32 primary_trace_clock
Clock                 1 uint32 clock_id
Clock                 2 uint64 timestamp
InternedData          1 *InternedName event_categories
InternedData          2 *InternedName event_names
InternedData          3 *InternedName debug_annotation_names
InternedData         29 *InternedString debug_annotation_string_values
InternedName          1 uint64 iid
InternedName          2 string name
InternedString        1 uint64 iid
InternedString        2 bytes str
TrackDescriptor       1 uint64 uuid
TrackDescriptor       2 string name
TrackDescriptor       3 ProcessDescriptor process
TrackDescriptor       4 ThreadDescriptor thread
TrackDescriptor       5 uint64 parent_uuid
TrackDescriptor       8 CounterDescriptor counter
ProcessDescriptor     1 int32 pid
ProcessDescriptor     2 *string cmdline
ProcessDescriptor     6 string process_name
ThreadDescriptor      1 int32 pid
ThreadDescriptor      2 int32 tid
ThreadDescriptor      5 string thread_name
CounterDescriptor     3 uint32 unit
CounterDescriptor     6 string unit_name
TrackEvent            3 *uint64 category_iids
TrackEvent            4 *DebugAnnotation debug_annotations
TrackEvent            9 uint32 type
TrackEvent           10 uint64 name_iid
TrackEvent           11 uint64 track_uuid
TrackEvent           30 int64 counter_value
TrackEvent           44 double double_counter_value
TrackEvent           47 *fixed64 flow_ids
TrackEvent           48 *fixed64 terminating_flow_ids
DebugAnnotation       1 uint64 name_iid
DebugAnnotation       3 uint64 uint_value
DebugAnnotation       4 int64 int_value
DebugAnnotation       7 uint64 pointer_value
DebugAnnotation      17 uint64 string_value_iid
`

// perfettoTrace is the descriptor of Trace.
func perfettoTrace(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("trace.proto"), Package: proto.String("p"), Syntax: proto.String("proto2")}
	messages := map[string]*descriptorpb.DescriptorProto{}
	for row := range strings.Lines(strings.TrimSpace(perfettoSchema)) {
		w := strings.Fields(row)
		m := messages[w[0]]
		if m == nil {
			m = &descriptorpb.DescriptorProto{Name: proto.String(w[0])}
			messages[w[0]] = m
			file.MessageType = append(file.MessageType, m)
		}
		number, err := strconv.Atoi(w[1])
		if err != nil {
			t.Fatal(err)
		}
		f := &descriptorpb.FieldDescriptorProto{Name: proto.String(w[3]), Number: proto.Int32(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		name, many := strings.CutPrefix(w[2], "*")
		if many {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if kind, plain := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(name)]; plain {
			f.Type = descriptorpb.FieldDescriptorProto_Type(kind).Enum()
		} else {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".p."+name)
		}
		m.Field = append(m.Field, f)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Messages().ByName("Trace")
}

// msg reads fields by name.
type msg struct{ protoreflect.Message }

func (m msg) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}
func (m msg) value(name string) protoreflect.Value { return m.Get(m.field(name)) }
func (m msg) has(name string) bool                 { return m.Has(m.field(name)) }
func (m msg) sub(name string) msg                  { return msg{m.value(name).Message()} }
func (m msg) list(name string) (out []protoreflect.Value) {
	l := m.value(name).List()
	for i := range l.Len() {
		out = append(out, l.Get(i))
	}
	return out
}

// strict fails if a message has fields outside the schema.
func strict(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has fields that the schema has not: %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				strict(t, v.List().Get(i).Message())
			}
		default:
			strict(t, v.Message())
		}
		return true
	})
}

// perfettoReader follows a sequence of packets as Perfetto does.
type perfettoReader struct {
	t      *testing.T
	names  map[string]map[uint64]string // of InternedData, by field
	tracks map[uint64]string
	parent map[uint64]uint64
	pids   map[int32]string
	tids   map[int32]bool
	open   map[uint64][]int // by track: the open slices
	out    []line
}

// readPerfetto decodes a trace by the schema, and checks its rules: names are defined before use,
// tracks before their events, slices nest and end within their tracks, and events are ordered by
// time.
func readPerfetto(t *testing.T, b []byte) []line {
	t.Helper()
	trace := dynamicpb.NewMessage(perfettoTrace(t))
	if err := proto.Unmarshal(b, trace); err != nil {
		t.Fatal(err)
	}
	strict(t, trace)
	r := &perfettoReader{t: t, tracks: map[uint64]string{}, parent: map[uint64]uint64{}, pids: map[int32]string{}, tids: map[int32]bool{}, open: map[uint64][]int{}}
	type timed struct {
		at    uint64
		event func()
	}
	var events []timed
	for i, v := range (msg{trace}).list("packet") {
		p := msg{v.Message()}
		flags := p.value("sequence_flags").Uint()
		if p.value("trusted_packet_sequence_id").Uint() != 1 || (flags&1 != 0) != (p.sub("trace_packet_defaults").value("timestamp_clock_id").Uint() == 1) {
			t.Fatalf("packet %d: %v", i, p)
		}
		if i == 0 && (p.sub("clock_snapshot").value("primary_trace_clock").Uint() != 1 || flags&1 == 0 || !p.value("first_packet_on_sequence").Bool()) {
			t.Fatalf("the first packet says nothing of the clock: %v", p)
		}
		if flags&1 != 0 {
			r.names = map[string]map[uint64]string{}
		}
		r.intern(p.sub("interned_data"))
		switch {
		case p.has("track_descriptor"):
			r.describe(p.sub("track_descriptor"))
		case p.has("track_event"):
			events = append(events, timed{p.value("timestamp").Uint(), r.event(p.sub("track_event"), int64(p.value("timestamp").Uint()))})
		case i > 0:
			t.Fatalf("packet %d is empty", i)
		}
	}
	slices.SortStableFunc(events, func(a, b timed) int { return int(int64(a.at) - int64(b.at)) })
	for _, e := range events {
		e.event()
	}
	for track, open := range r.open {
		if len(open) > 0 {
			t.Errorf("%d slices of %s never end", len(open), r.tracks[track])
		}
	}
	return ordered(r.out)
}

func (r *perfettoReader) intern(d msg) {
	for field, text := range map[string]string{"event_categories": "name", "event_names": "name", "debug_annotation_names": "name", "debug_annotation_string_values": "str"} {
		for _, v := range d.list(field) {
			m := msg{v.Message()}
			if r.names[field] == nil {
				r.names[field] = map[uint64]string{}
			}
			name := m.value(text).String()
			if text == "str" {
				name = string(m.value(text).Bytes())
			}
			r.names[field][m.value("iid").Uint()] = name
		}
	}
}

func (r *perfettoReader) name(field string, iid uint64) string {
	s, known := r.names[field][iid]
	if !known {
		r.t.Fatalf("%s %d is used and not known", field, iid)
	}
	return s
}

func (r *perfettoReader) describe(d msg) {
	id := d.value("uuid").Uint()
	if _, twice := r.tracks[id]; twice || id == 0 {
		r.t.Fatalf("track %d is described twice", id)
	}
	name := d.value("name").String()
	switch {
	case d.has("process"):
		p := d.sub("process")
		pid := int32(p.value("pid").Int())
		if r.pids[pid] != "" || pid <= 0 {
			r.t.Fatalf("two processes have number %d", pid)
		}
		name = p.value("process_name").String()
		r.pids[pid] = name
	case d.has("thread"):
		pid, tid := int32(d.sub("thread").value("pid").Int()), int32(d.sub("thread").value("tid").Int())
		if r.tids[tid] || pid < 100 && tid != pid+1 { // for the short recordings
			r.t.Errorf("thread %d of process %d", tid, pid)
		}
		r.tids[tid] = true
		name = r.pids[int32(d.sub("thread").value("pid").Int())] + "/" + d.sub("thread").value("thread_name").String()
	case d.has("parent_uuid") && !d.has("counter"):
		name = r.tracks[d.value("parent_uuid").Uint()] + "/" + name
	case d.has("counter"):
		const bytes = 3 // UNIT_SIZE_BYTES
		if unit := d.sub("counter").value("unit").Uint(); strings.Contains(name, "memory") != (unit == bytes) {
			r.t.Errorf("the unit of %q is %d", name, unit)
		}
		r.parent[id] = d.value("parent_uuid").Uint()
	}
	r.tracks[id] = name
}

// event reads an event, whose names are known, and returns its action at its time.
func (r *perfettoReader) event(e msg, at int64) func() {
	track := e.value("track_uuid").Uint()
	name, known := r.tracks[track]
	if !known {
		r.t.Fatalf("an event is of track %d, which is not known", track)
	}
	l := line{Track: name, At: at - began.UnixNano()}
	var categories []string
	for _, c := range e.list("category_iids") {
		categories = append(categories, r.name("event_categories", c.Uint()))
	}
	l.Cat = strings.Join(categories, ",")
	l.Args = r.args(e)
	for _, v := range e.list("flow_ids") {
		l.Out = append(l.Out, v.Uint())
	}
	for _, v := range e.list("terminating_flow_ids") {
		l.In = append(l.In, v.Uint())
	}
	kind := e.value("type").Uint()
	if kind == 1 || kind == 3 {
		l.Name = r.name("event_names", e.value("name_iid").Uint())
	}
	switch kind {
	case 1:
		return func() {
			l.Kind, l.Depth, l.For = "slice", len(r.open[track]), math.MinInt64
			r.open[track] = append(r.open[track], len(r.out))
			r.out = append(r.out, l)
		}
	case 2:
		return func() {
			open := r.open[track]
			if len(open) == 0 {
				r.t.Fatalf("a slice of %s ends that has not begun", name)
			}
			s := &r.out[open[len(open)-1]]
			s.For = l.At - s.At
			r.open[track] = open[:len(open)-1]
		}
	case 3:
		l.Kind = "instant"
	case 4:
		l.Kind, l.Name, l.Track, l.Value = "count", name, r.tracks[r.parent[track]], float64(e.value("counter_value").Int())
		if e.has("double_counter_value") {
			l.Value = e.value("double_counter_value").Float()
		}
	default:
		r.t.Fatalf("event of type %d", kind)
	}
	return func() { r.out = append(r.out, l) }
}

func (r *perfettoReader) args(e msg) (out map[string]string) {
	for _, v := range e.list("debug_annotations") {
		a := msg{v.Message()}
		value := fmt.Sprint(a.value("int_value").Int())
		switch {
		case a.has("string_value_iid"):
			value = r.name("debug_annotation_string_values", a.value("string_value_iid").Uint())
		case a.has("uint_value"):
			value = fmt.Sprint(a.value("uint_value").Uint())
		case a.has("pointer_value"):
			value = fmt.Sprintf("%#x", a.value("pointer_value").Uint())
		}
		if out == nil {
			out = map[string]string{}
		}
		out[r.name("debug_annotation_names", a.value("name_iid").Uint())] = value
	}
	return out
}
