package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// formOf describes the JSON form of a fleet: each type of the package that it contains, beginning with the one that is
// printed.
func formOf(folder string) (string, error) {
	structs, fset := map[string]*ast.TypeSpec{}, token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				spec := g.Specs[0].(*ast.TypeSpec)
				structs[spec.Name.Name] = spec
			}
		}
	}
	var b strings.Builder
	b.WriteString("\n## Output as JSON\n\n`kubectl windows status -o json` prints a Fleet, `kubectl windows describe HOST -o json` one of its Hosts. Fields\n" +
		"without a value are left out. Programs must ignore fields that they do not know.\n")
	todo, done := []string{"Fleet"}, []string{}
	for len(todo) > 0 {
		name := todo[0]
		todo, done = todo[1:], append(done, todo[0])
		for _, used := range fields(&b, fset, name, structs[name].Type.(*ast.StructType)) {
			if spec := structs[used]; spec != nil && !slices.Contains(done, used) && !slices.Contains(todo, used) {
				if _, ok := spec.Type.(*ast.StructType); ok {
					todo = append(todo, used)
				}
			}
		}
	}
	return b.String(), nil
}

// fields writes the table of a type and returns the names of the types of its fields.
func fields(b *strings.Builder, fset *token.FileSet, name string, s *ast.StructType) (used []string) {
	fmt.Fprintf(b, "\n### %s\n\n| field | type | what it says |\n| --- | --- | --- |\n", name)
	type row struct{ names, types, doc string }
	var rows []row
	for _, f := range s.Fields.List {
		key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		kind := typeName(fset, f.Type)
		ast.Inspect(f.Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used = append(used, id.Name)
			}
			return true
		})
		doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
		if doc == "" && len(rows) > 0 { // described together with the field before
			last := &rows[len(rows)-1]
			last.names += ", `" + key + "`"
			if !strings.Contains(last.types, kind) {
				last.types += ", " + kind
			}
			continue
		}
		rows = append(rows, row{"`" + key + "`", kind, doc})
	}
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.names, r.types, r.doc)
	}
	return used
}

// typeName returns the name of a type in terms of JSON.
func typeName(fset *token.FileSet, e ast.Expr) string {
	var text bytes.Buffer
	_ = format.Node(&text, fset, e)
	name := strings.TrimPrefix(text.String(), "*")
	list := ""
	if strings.HasPrefix(name, "[]") {
		name, list = name[2:], "list of "
	}
	switch name {
	case "int", "float64":
		name = "number"
	case "bool":
		name = "true or false"
	case "time.Time":
		name = "time"
	case "advice.Severity", "State", "string":
		name = "text"
	case "map[State]int":
		name = "numbers by state"
	}
	return list + name
}
