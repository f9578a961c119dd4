package otlp

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
)

// attrs collects attributes. After reset, values come from reused blocks: nothing made before the
// previous reset may be in use.
type attrs struct {
	list    []*commonpb.KeyValue
	pairs   slab[pair]
	triples slab[triple]
}

// triple is an array of three numbers in one allocation.
type triple struct {
	value commonpb.AnyValue_ArrayValue
	array commonpb.ArrayValue
	list  [3]*commonpb.AnyValue
	any   [3]commonpb.AnyValue
	num   [3]commonpb.AnyValue_IntValue
}

// pair is an attribute with its value in one allocation.
type pair struct {
	kv   commonpb.KeyValue
	any  commonpb.AnyValue
	text commonpb.AnyValue_StringValue
	num  commonpb.AnyValue_IntValue
}

// slab allocates elements, in blocks after the first reset, and reuses them all after the next
// reset.
type slab[T any] struct {
	keeps  bool
	blocks [][]T
	used   int
}

const slabBlock = 256

func (s *slab[T]) next() *T {
	if !s.keeps {
		return new(T)
	}
	if s.used == len(s.blocks)*slabBlock {
		s.blocks = append(s.blocks, make([]T, slabBlock))
	}
	x := &s.blocks[s.used/slabBlock][s.used%slabBlock]
	s.used++
	return x
}

func (s *slab[T]) reset() { s.keeps, s.used = true, 0 }

func (a *attrs) next(key string) *pair {
	p := a.pairs.next()
	p.kv.Key, p.kv.Value = key, &p.any
	a.list = append(a.list, &p.kv)
	return p
}

// text adds a text, unless it is empty.
func (a *attrs) text(key, value string) {
	if value == "" {
		return
	}
	p := a.next(key)
	p.text.StringValue = strings.ToValidUTF8(value, "?")
	p.any.Value = &p.text
}

// num adds a number.
func (a *attrs) num(key string, value int64) {
	p := a.next(key)
	p.num.IntValue = value
	p.any.Value = &p.num
}

// other adds a value of another kind.
func (a *attrs) other(key string, value any) {
	switch v := value.(type) {
	case string:
		a.text(key, v)
	case int64:
		a.num(key, v)
	case bool:
		a.next(key).any.Value = &commonpb.AnyValue_BoolValue{BoolValue: v}
	case float64:
		a.next(key).any.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: v}
	case [3]int64:
		x := a.triples.next()
		for i, n := range v {
			x.num[i].IntValue = n
			x.any[i].Value = &x.num[i]
			x.list[i] = &x.any[i]
		}
		x.array.Values = x.list[:]
		x.value.ArrayValue = &x.array
		a.next(key).any.Value = &x.value
	}
}

// take returns the attributes added since the last take.
func (a *attrs) take() []*commonpb.KeyValue {
	out := a.list[:len(a.list):len(a.list)]
	a.list = a.list[len(a.list):]
	return out
}

// reset makes room for the next request.
func (a *attrs) reset() {
	a.list = a.list[:0] // earlier elements are not reused: see take
	a.pairs.reset()
	a.triples.reset()
}
