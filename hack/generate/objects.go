package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// objects returns docs/objects.md, the reference of every kind, field and name in api, and the pages of docs/reference.
func objects(root string) (map[string][]byte, error) {
	s, err := parse(root, "api/v1alpha1", "api")
	if err != nil {
		return nil, err
	}
	reasons := s.entries("Reason", "Event")
	return map[string][]byte{
		"docs/objects.md":           s.objectsPage(),
		"docs/reference/reasons.md": reasonsPage(reasons),
		"docs/reference/events.md":  eventsPage(reasons),
		"docs/reference/labels.md":  labelsPage(s.entries("Label", "Annotation", "Taint", "Finalizer")),
	}, nil
}

func (s source) objectsPage() []byte {
	var out bytes.Buffer
	out.WriteString("# Objects and names\n\nGenerated from `api` by `make generate`; edit the comments there.\n")
	for _, d := range s.decls {
		switch d.Tok {
		case token.CONST:
			if !isOfReasons(d) { // reference/reasons.md has them, with remedies
				s.writeConstants(&out, d)
			}
		case token.TYPE:
			t := d.Specs[0].(*ast.TypeSpec)
			if fields, ok := t.Type.(*ast.StructType); ok && !strings.HasSuffix(t.Name.Name, "List") {
				s.writeKind(&out, t.Name.Name, d.Doc, fields)
			}
		}
	}
	return out.Bytes()
}

// isOfReasons reports whether a block of constants has the reasons of a condition.
func isOfReasons(d *ast.GenDecl) bool {
	return strings.HasPrefix(d.Specs[0].(*ast.ValueSpec).Names[0].Name, "Reason")
}

// writeConstants writes a block of constants. Its heading is the type of the constants, or else the comment of the block.
func (s source) writeConstants(out *bytes.Buffer, d *ast.GenDecl) {
	first := d.Specs[0].(*ast.ValueSpec)
	if !d.Lparen.IsValid() {
		fmt.Fprintf(out, "\n%s\n", wrap(s.sentence(first.Names[0].Name, d.Doc)))
		return
	}
	if t, ok := first.Type.(*ast.Ident); ok {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n", t.Name, wrap(s.text(s.docs[t.Name])))
	} else {
		heading, rest := s.title(d)
		fmt.Fprintf(out, "\n## %s\n\n", heading)
		if rest != "" {
			fmt.Fprintf(out, "%s\n\n", wrap(rest+"."))
		}
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		fmt.Fprintf(out, "%s\n", wrap("- "+s.sentence(v.Names[0].Name, v.Doc)))
	}
}

// sentence returns the comment of a constant, with the value of the constant as its subject.
func (s source) sentence(name string, doc *ast.CommentGroup) string {
	if doc == nil {
		return "`" + s.constants[name] + "`"
	}
	return s.text(doc)
}

// writeKind writes a struct: its rules, and its fields by their names in YAML.
func (s source) writeKind(out *bytes.Buffer, name string, doc *ast.CommentGroup, t *ast.StructType) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n", name, wrap(s.text(doc)))
	if rules := markersOf(doc).rules; len(rules) > 0 {
		fmt.Fprintf(out, "\nRules:\n\n- %s\n", strings.Join(rules, "\n- "))
	}
	out.WriteString("\n| field | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range t.Fields.List {
		name, options := jsonTag(f)
		if name == "" || name == "metadata" {
			continue
		}
		m := markersOf(f.Doc)
		byDefault := m.byDefault
		if !m.optional && options != "omitempty" {
			byDefault = "required"
		}
		meaning := "`" + name + "`" + strings.TrimPrefix(s.text(f.Doc), name)
		fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s |\n", name, s.typeName(f.Type), byDefault, s.allowed(m, f.Type), meaning)
	}
}

// jsonTag returns the name of a field in JSON, and the options behind it.
func jsonTag(f *ast.Field) (name, options string) {
	tag, _ := strconv.Unquote(f.Tag.Value)
	name, options, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name, options
}

// allowed describes the values that a field may have, by its own markers and those of its type.
func (s source) allowed(m markers, e ast.Expr) string {
	if t, ok := e.(*ast.Ident); ok {
		if _, isStruct := s.types[t.Name].(*ast.StructType); !isStruct {
			m.bounds = append(m.bounds, markersOf(s.docs[t.Name]).bounds...)
		}
	}
	return strings.Join(append(m.bounds, m.rules...), "; ")
}
