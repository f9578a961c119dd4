package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendJSON appends a message in OTLP's JSON: protobuf's JSON, except hexadecimal ids and numeric
// enums (opentelemetry.io/docs/specs/otlp).
func appendJSON(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	first := true
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, f.JSONName()...)
		b = append(b, '"', ':')
		if !f.IsList() {
			b = appendJSONValue(b, f, v)
			return true
		}
		b = append(b, '[')
		for i, l := 0, v.List(); i < l.Len(); i++ {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONValue(b, f, l.Get(i))
		}
		b = append(b, ']')
		return true
	})
	return append(b, '}')
}

func appendJSONValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendJSON(b, v.Message())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.StringKind:
		text, _ := json.Marshal(strings.ToValidUTF8(v.String(), "?")) // cannot fail for a string
		return append(b, text...)
	case protoreflect.BytesKind:
		b = append(b, '"')
		if strings.HasSuffix(string(f.Name()), "_id") {
			b = hex.AppendEncode(b, v.Bytes())
		} else {
			b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		}
		return append(b, '"')
	case protoreflect.EnumKind:
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return appendJSONFloat(b, v.Float())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(b, v.Int(), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind: // too large for a JSON number
		return append(strconv.AppendUint(append(b, '"'), v.Uint(), 10), '"')
	}
	return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"')
}

func appendJSONFloat(b []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(b, `"NaN"`...)
	case math.IsInf(x, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(x, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, 64)
}

// rejectedNames are the JSON names of the number of rejected items.
var rejectedNames = [Signals]string{Metrics: "rejectedDataPoints", Traces: "rejectedSpans", Logs: "rejectedLogRecords"}

// partialJSON parses an answer in JSON.
func partialJSON(text []byte, s Signal) (rejected int64, message string, err error) {
	var a struct {
		PartialSuccess map[string]json.RawMessage `json:"partialSuccess"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return 0, "", err
	}
	n, err := strconv.ParseInt(strings.Trim(string(a.PartialSuccess[rejectedNames[s]]), `"`), 10, 64)
	if err == nil {
		rejected = max(n, 0)
	}
	_ = json.Unmarshal(a.PartialSuccess["errorMessage"], &message) // anything but text is ignored
	return rejected, printable([]byte(message)), nil
}
