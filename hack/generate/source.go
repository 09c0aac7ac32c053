package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// source has the declarations of packages in the order of their files, with constants and types by name.
type source struct {
	decls     []*ast.GenDecl
	constants map[string]string
	types     map[string]ast.Expr
	docs      map[string]*ast.CommentGroup // of types
}

// parse reads packages, without generated files and tests.
func parse(root string, folders ...string) (source, error) {
	s := source{constants: map[string]string{}, types: map[string]ast.Expr{}, docs: map[string]*ast.CommentGroup{}}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return source{}, err
		}
		for _, name := range names {
			if strings.HasPrefix(filepath.Base(name), "zz_") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return source{}, err
			}
			for _, decl := range file.Decls {
				if d, ok := decl.(*ast.GenDecl); ok {
					s.decls = append(s.decls, d)
					s.record(d)
				}
			}
		}
	}
	return s, nil
}

// record records the types and the values of constants, which other declarations refer to.
func (s source) record(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.types[spec.Name.Name], s.docs[spec.Name.Name] = spec.Type, d.Doc
		case *ast.ValueSpec:
			if d.Tok == token.CONST && len(spec.Values) > 0 {
				s.constants[spec.Names[0].Name] = s.value(spec.Values[0])
			}
		}
	}
}

// value returns the text of a constant expression.
func (s source) value(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
		return e.Value
	case *ast.Ident:
		return s.constants[e.Name]
	case *ast.BinaryExpr:
		return s.value(e.X) + s.value(e.Y)
	}
	return ""
}

// typeName returns the type of a field as users write it.
func (s source) typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return s.typeName(e.X)
	case *ast.ArrayType:
		return "list of " + s.typeName(e.Elt)
	case *ast.MapType:
		return "map of " + s.typeName(e.Key) + " to " + s.typeName(e.Value)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "MicroTime": "time", "UID": "string", "Severity": "string", "IntOrString": "integer or string",
			"LabelSelector": "label selector", "Condition": "Condition", "Taint": "Taint"}[e.Sel.Name]
	case *ast.Ident:
		switch t := s.types[e.Name].(type) {
		case nil:
			return map[string]string{"bool": "boolean", "int": "integer", "int32": "integer", "int64": "integer", "float64": "number", "string": "string"}[e.Name]
		case *ast.StructType:
			return "[" + e.Name + "](#" + strings.ToLower(e.Name) + ")"
		default:
			return s.typeName(t)
		}
	}
	return ""
}

// text returns a comment as one paragraph, without markers, with constants replaced by their values.
func (s source) text(doc *ast.CommentGroup) string {
	var lines []string
	for line := range strings.SplitSeq(doc.Text(), "\n") {
		if !strings.HasPrefix(line, "+") && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	joined := regexp.MustCompile(`\b[A-Z]\w+\b`).ReplaceAllStringFunc(strings.Join(lines, " "), func(word string) string {
		if value, ok := s.constants[word]; ok {
			return "`" + value + "`"
		}
		return word
	})
	return cell(strings.ReplaceAll(joined, "<", `\<`))
}

// title returns the first sentence of the comment of a block of constants, and what follows.
func (s source) title(d *ast.GenDecl) (first, rest string) {
	first, rest, _ = strings.Cut(strings.TrimSuffix(s.text(d.Doc), "."), ". ")
	return first, rest
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
