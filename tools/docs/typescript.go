package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

const typescriptHead = `// Generated from internal/wire by make docs. The answers of the read API (docs/reference/api.md). An
// unknown value is absent or null, never 0.
`

// typescript renders the types of the API's answers for the dashboard's page.
func typescript(root string) (string, error) {
	m, err := wireModel(root, func(document string) bool { return !strings.HasPrefix(document, "ingero ") })
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(typescriptHead)
	for _, name := range m.names() {
		t := m.types[name]
		fmt.Fprintf(&b, "\n/** %s */\nexport interface %s {\n", m.about[key(t)], name)
		for _, x := range m.members(t) {
			mark, about := "", ""
			if x.optional {
				mark = "?"
			}
			if x.about != "" {
				about = " // " + x.about
			}
			fmt.Fprintf(&b, "  %s%s: %s;%s\n", x.name, mark, typescriptType(x.kind, !x.optional), about)
		}
		b.WriteString("}\n")
	}
	return b.String(), nil
}

// typescriptType returns a type in TypeScript. A pointer may be null, unless it is then absent.
func typescriptType(t reflect.Type, null bool) string {
	switch t {
	case millisType:
		return "number"
	case knownType:
		return "number | null"
	case numberType: // absent if unknown
		return "number"
	case rowType:
		return "(string | number | null | { hex: string })[]"
	case rawType:
		return "unknown"
	case bytesType, reflect.TypeFor[time.Time]():
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Pointer:
		text := typescriptType(t.Elem(), true)
		if null {
			text += " | null"
		}
		return text
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Pointer && object(e.Elem()) {
			return typeName(e.Elem()) + "[]" // never null
		}
		text := typescriptType(t.Elem(), true)
		if strings.Contains(text, "|") {
			text = "(" + text + ")"
		}
		return text + "[]"
	case reflect.Array:
		return "[" + strings.TrimSuffix(strings.Repeat(typescriptType(t.Elem(), true)+", ", t.Len()), ", ") + "]"
	case reflect.Map:
		return "Record<string, " + typescriptType(t.Elem(), true) + ">"
	case reflect.Struct:
		return typeName(t)
	case reflect.Interface:
		return "unknown"
	}
	return "number"
}
