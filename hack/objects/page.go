package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// page is the page as written so far, and the constants and types that it refers to.
type page struct {
	constants map[string]string
	types     map[string]*ast.TypeSpec
	docs      map[string]*ast.CommentGroup // of types
	out       bytes.Buffer
}

func (p *page) writef(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// learn records the types and the values of constants, which other declarations refer to.
func (p *page) learn(file *ast.File) {
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.types[s.Name.Name], p.docs[s.Name.Name] = s, d.Doc
			case *ast.ValueSpec:
				for i, name := range s.Names {
					if d.Tok == token.CONST && i < len(s.Values) {
						p.constants[name.Name] = p.value(s.Values[i])
					}
				}
			}
		}
	}
}

// value returns the text of a constant expression.
func (p *page) value(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
		return e.Value
	case *ast.Ident:
		return p.constants[e.Name]
	case *ast.BinaryExpr:
		return p.value(e.X) + p.value(e.Y)
	}
	return ""
}

func (p *page) declaration(d *ast.GenDecl) {
	switch d.Tok {
	case token.CONST:
		p.constantList(d)
	case token.TYPE:
		for _, spec := range d.Specs {
			t := spec.(*ast.TypeSpec)
			if s, ok := t.Type.(*ast.StructType); ok && !strings.HasSuffix(t.Name.Name, "List") {
				p.kind(t.Name.Name, d.Doc, s)
			}
		}
	}
}

// constantList writes a block of constants. Its heading is the type of the constants, or else the comment of the block.
func (p *page) constantList(d *ast.GenDecl) {
	first := d.Specs[0].(*ast.ValueSpec)
	if len(d.Specs) == 1 && d.Lparen == token.NoPos {
		p.writef("\n%s\n", wrap(p.sentence(first.Names[0].Name, d.Doc)))
		return
	}
	if t, ok := first.Type.(*ast.Ident); ok {
		p.writef("\n## %s\n\n%s\n\n", t.Name, wrap(p.text(p.docs[t.Name])))
	} else {
		heading, rest, _ := strings.Cut(strings.TrimSuffix(p.text(d.Doc), "."), ". ")
		p.writef("\n## %s\n\n", heading)
		if rest != "" {
			p.writef("%s\n\n", wrap(rest+"."))
		}
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		p.writef("%s\n", wrap("- "+p.sentence(v.Names[0].Name, v.Doc)))
	}
}

// sentence returns the comment of a constant, with the value of the constant as its subject.
func (p *page) sentence(name string, doc *ast.CommentGroup) string {
	if doc == nil {
		return "`" + p.constants[name] + "`"
	}
	return p.text(doc)
}

// kind writes a struct: its rules, and its fields by their names in YAML.
func (p *page) kind(name string, doc *ast.CommentGroup, s *ast.StructType) {
	p.writef("\n## %s\n\n%s\n", name, wrap(p.text(doc)))
	if rules := markersOf(doc).rules; len(rules) > 0 {
		p.writef("\nRules:\n\n")
		for _, rule := range rules {
			p.writef("- %s\n", rule)
		}
	}
	p.writef("\n| field | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range s.Fields.List {
		tag := ""
		if f.Tag != nil {
			unquoted, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(unquoted).Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "metadata" {
			continue
		}
		m := markersOf(f.Doc)
		byDefault := m.byDefault
		if !m.optional && options != "omitempty" {
			byDefault = "required"
		}
		meaning := "`" + name + "`" + strings.TrimPrefix(p.text(f.Doc), name)
		p.writef("| `%s` | %s | %s | %s | %s |\n", name, p.typeName(f.Type), byDefault, p.allowed(m, f.Type), meaning)
	}
}

// typeName returns the type of a field as users write it.
func (p *page) typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return p.typeName(e.X)
	case *ast.ArrayType:
		return "list of " + p.typeName(e.Elt)
	case *ast.MapType:
		return "map of " + p.typeName(e.Key) + " to " + p.typeName(e.Value)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "MicroTime": "time", "UID": "string", "IntOrString": "integer or string"}[e.Sel.Name] +
			map[bool]string{true: e.Sel.Name}[e.Sel.Name == "Condition" || e.Sel.Name == "Taint"]
	case *ast.Ident:
		if t, ours := p.types[e.Name]; ours {
			if _, isStruct := t.Type.(*ast.StructType); isStruct {
				return "[" + e.Name + "](#" + strings.ToLower(e.Name) + ")"
			}
			return p.typeName(t.Type)
		}
		return map[string]string{"bool": "boolean", "int32": "integer", "int64": "integer", "string": "string"}[e.Name]
	}
	return ""
}

// allowed describes the values that a field may have, by its own markers and those of its type.
func (p *page) allowed(m markers, e ast.Expr) string {
	if t, ok := e.(*ast.Ident); ok && p.types[t.Name] != nil {
		if _, isStruct := p.types[t.Name].Type.(*ast.StructType); !isStruct {
			ofType := markersOf(p.docs[t.Name])
			m.bounds = append(m.bounds, ofType.bounds...)
		}
	}
	return strings.Join(append(m.bounds, m.rules...), "; ")
}

// text returns a comment as one paragraph, without markers, with constants replaced by their values.
func (p *page) text(doc *ast.CommentGroup) string {
	var lines []string
	for line := range strings.SplitSeq(doc.Text(), "\n") {
		if !strings.HasPrefix(line, "+") && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	joined := regexp.MustCompile(`\b[A-Z]\w+\b`).ReplaceAllStringFunc(strings.Join(lines, " "), func(word string) string {
		if value, ok := p.constants[word]; ok {
			return "`" + value + "`"
		}
		return word
	})
	return cell(strings.ReplaceAll(joined, "<", `\<`))
}

// wrap wraps a paragraph, or an item of a list, at 120 characters.
func wrap(text string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > 120:
			lines, line = append(lines, line), word
			if strings.HasPrefix(text, "- ") {
				line = "  " + word
			}
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

// cell escapes text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
