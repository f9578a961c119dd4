package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// model has the types of JSON documents, with the comments of their source.
type model struct {
	about map[string]string       // comments of types as "package.Type", and of fields as "package.Type.Field"
	types map[string]reflect.Type // structs, by name in the generated files
}

// member is a member of a JSON object.
type member struct {
	name, about string
	optional    bool // absent if unknown or empty
	kind        reflect.Type
}

// wireModel returns the types that the wanted documents reach. root is the repository's.
func wireModel(root string, wanted func(document string) bool) (*model, error) {
	m := &model{about: map[string]string{}, types: map[string]reflect.Type{}}
	for _, dir := range []string{"internal/wire", "internal/tick"} {
		if err := m.comments(filepath.Join(root, dir)); err != nil {
			return nil, err
		}
	}
	for _, d := range wire.Documents {
		if wanted(d.Name) {
			m.reach(reflect.TypeOf(d.Value))
		}
	}
	return m, nil
}

// comments reads the comments of a package's structs.
func (m *model) comments(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				s := s.(*ast.TypeSpec)
				of := f.Name.Name + "." + s.Name.Name
				m.about[of] = sentence(g.Doc, s.Doc)
				if t, ok := s.Type.(*ast.StructType); ok {
					for _, field := range t.Fields.List {
						for _, name := range field.Names {
							m.about[of+"."+name.Name] = sentence(field.Doc, field.Comment)
						}
					}
				}
			}
		}
	}
	return nil
}

// sentence returns comments as one line.
func sentence(groups ...*ast.CommentGroup) string {
	var words []string
	for _, g := range groups {
		words = append(words, strings.Fields(g.Text())...)
	}
	return strings.NewReplacer("[", "", "]", "").Replace(strings.Join(words, " "))
}

// reach adds a type and those in it.
func (m *model) reach(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		m.reach(t.Elem())
	case reflect.Struct:
		name := typeName(t)
		if m.types[name] != nil || !object(t) {
			return
		}
		m.types[name] = t
		for _, x := range m.members(t) {
			m.reach(x.kind)
		}
	}
}

// object reports whether a type is an object whose members are its fields.
func object(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !t.Implements(reflect.TypeFor[json.Marshaler]())
}

// names returns the names of the types in order.
func (m *model) names() []string { return slices.Sorted(maps.Keys(m.types)) }

// typeName returns the name of a type. A type with parameters has their names in front: a list of
// streams is StreamList.
func typeName(t reflect.Type) string {
	base, param, ok := strings.Cut(t.Name(), "[")
	if !ok {
		return base
	}
	param = strings.TrimSuffix(param, "]")
	return param[strings.LastIndex(param, ".")+1:] + base
}

// key returns the key of a type in about.
func key(t reflect.Type) string {
	base, _, _ := strings.Cut(t.Name(), "[")
	return path.Base(t.PkgPath()) + "." + base
}

// members returns the members of an object in order, with those of embedded structs.
func (m *model) members(t reflect.Type) (out []member) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, m.members(f.Type)...)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		out = append(out, member{name, m.about[key(t)+"."+f.Name], strings.Contains(options, "omit"), f.Type})
	}
	return out
}

// Types with their own JSON form.
var (
	millisType = reflect.TypeFor[wire.Millis]()
	knownType  = reflect.TypeFor[wire.Known]()
	numberType = reflect.TypeFor[tick.Number]()
	rowType    = reflect.TypeFor[wire.Row]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	bytesType  = reflect.TypeFor[[]byte]()
)
