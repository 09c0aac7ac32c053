package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// fleetForm describes the JSON form of a fleet: each type of the package that it contains, beginning with the one that is
// printed.
func fleetForm(root string) (string, error) {
	s, err := parse(root, "internal/observe/fleetstatus")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n## Output as JSON\n\n`kubectl windows status -o json` prints a Fleet, `kubectl windows describe HOST -o json` one of its Hosts. Fields\n" +
		"without a value are left out. Programs must ignore fields that they do not know.\n")
	names := []string{"Fleet"}
	for i := 0; i < len(names); i++ {
		t := s.types[names[i]].(*ast.StructType)
		s.writeFields(&b, names[i], t)
		for _, f := range t.Fields.List {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && !slices.Contains(names, id.Name) {
					if _, isStruct := s.types[id.Name].(*ast.StructType); isStruct {
						names = append(names, id.Name)
					}
				}
				return true
			})
		}
	}
	return b.String(), nil
}

// writeFields writes the table of a type. Fields without a comment are described together with the one before.
func (s source) writeFields(b *strings.Builder, name string, t *ast.StructType) {
	fmt.Fprintf(b, "\n### %s\n\n| field | type | meaning |\n| --- | --- | --- |\n", name)
	fields := t.Fields.List
	for i := 0; i < len(fields); {
		doc := strings.Join(strings.Fields(fields[i].Doc.Text()), " ")
		var names, types []string
		for first := i; i < len(fields) && (i == first || fields[i].Doc == nil); i++ {
			name, _ := jsonTag(fields[i])
			names = append(names, "`"+name+"`")
			if kind := s.typeName(fields[i].Type); !slices.Contains(types, kind) {
				types = append(types, kind)
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.Join(names, ", "), strings.Join(types, ", "), doc)
	}
}
