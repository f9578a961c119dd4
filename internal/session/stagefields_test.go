package session

import (
	"reflect"
	"strings"
	"sync"
)

// owners has the results of owner, which is asked for each value of each batch and tick.
var owners sync.Map

// owner returns the field of the part that a path belongs to.
func owner(path string) (of string) {
	if known, ok := owners.Load(path); ok {
		return known.(string)
	}
	defer func() { owners.Store(path, of) }()
	for _, fields := range partFields {
		for _, f := range fields {
			if rest, ok := strings.CutPrefix(path, f); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(f) > len(of) {
				of = f
			}
		}
	}
	return of
}

// fieldsOf returns the fields of parts.
func fieldsOf(s parts) map[string]bool {
	out := map[string]bool{}
	for _, p := range s.list() {
		for _, f := range partFields[p] {
			out[f] = true
		}
	}
	return out
}

// open reports whether all fields of a struct are exported.
func open(v reflect.Type) bool {
	for i := range v.NumField() {
		if !v.Field(i).IsExported() {
			return false
		}
	}
	return true
}

// flat reports whether a copy of a value shares no memory with it.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		return false
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}

func below(path string, f reflect.StructField) string {
	switch {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return path
	case path == "":
		return f.Name
	}
	return path + "." + f.Name
}

// only returns a copy of a value with these fields only; nil: all.
func only(v reflect.Value, path string, fields map[string]bool) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	kept := fields == nil || path == "" || fields[owner(path)]
	switch {
	case v.Kind() == reflect.Slice && kept && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		if fields == nil && flat(v.Type().Elem()) {
			reflect.Copy(out, v)
			break
		}
		for i := range v.Len() {
			out.Index(i).Set(only(v.Index(i), path+"[]", fields))
		}
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct && open(v.Type().Elem()):
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(only(v.Elem(), path, fields))
	case v.Kind() == reflect.Struct && open(v.Type()):
		for i := range v.NumField() {
			out.Field(i).Set(only(v.Field(i), below(path, v.Type().Field(i)), fields))
		}
	case kept:
		out.Set(v)
	}
	return out
}

// take copies the fields that a stage gives.
func take(to, from reflect.Value, path string, fields map[string]bool) {
	switch {
	case path != "" && fields[owner(path)] && !strings.HasSuffix(path, "[]"):
		to.Set(from)
	case to.Kind() == reflect.Slice && !to.IsNil():
		own := reflect.MakeSlice(to.Type(), to.Len(), to.Len()) // sinks may be reading the elements of an earlier tick
		reflect.Copy(own, to)
		to.Set(own)
		for i := range min(to.Len(), from.Len()) {
			take(to.Index(i), from.Index(i), path+"[]", fields)
		}
	case to.Kind() == reflect.Pointer && !to.IsNil() && !from.IsNil() && to.Elem().Kind() == reflect.Struct && open(to.Type().Elem()):
		take(to.Elem(), from.Elem(), path, fields)
	case to.Kind() == reflect.Struct && open(to.Type()):
		for i := range to.NumField() {
			take(to.Field(i), from.Field(i), below(path, to.Type().Field(i)), fields)
		}
	}
}

// changed calls what for each field that differs.
func changed(a, b reflect.Value, path string, what func(field string)) {
	switch {
	case a.Kind() == reflect.Struct && a.Type().Comparable() && a.Interface() == b.Interface():
	case a.Kind() == reflect.Slice && a.Len() == b.Len():
		for i := range a.Len() {
			changed(a.Index(i), b.Index(i), path+"[]", what)
		}
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() && a.Elem().Kind() == reflect.Struct && open(a.Type().Elem()):
		changed(a.Elem(), b.Elem(), path, what)
	case a.Kind() == reflect.Struct && open(a.Type()):
		for i := range a.NumField() {
			changed(a.Field(i), b.Field(i), below(path, a.Type().Field(i)), what)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		what(owner(path))
	}
}
