// Command objects writes docs/objects.md: every kind, field and name of api with what its comment says.
// The page is generated so that it cannot say anything else than the code.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: objects <page to write> <folders of the api packages>")
		os.Exit(2)
	}
	page, err := render(os.Args[2:])
	if err == nil {
		err = os.WriteFile(os.Args[1], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// render reads the packages and returns the page.
func render(dirs []string) ([]byte, error) {
	var names []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	p := page{files: token.NewFileSet(), constants: map[string]string{}}
	p.writef("# Objects and names\n\nGenerated from `api` by `make generate`; edit the comments there.\n")
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "zz_") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(p.files, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.learn(file)
		parsed = append(parsed, file)
	}
	for _, file := range parsed {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				p.declaration(d)
			}
		}
	}
	return p.out.Bytes(), nil
}

// rank puts the kinds first and the rest in the order of the alphabet.
func rank(name string) string {
	base := filepath.Base(name)
	switch base {
	case "windowsinstance.go":
		return "0"
	case "windowsconfig.go":
		return "1"
	}
	return "2" + base
}

// page is the page as far as it is written, and the constants seen.
type page struct {
	files     *token.FileSet
	constants map[string]string
	out       bytes.Buffer
}

func (p *page) writef(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// learn remembers the values of constants, which others are made of.
func (p *page) learn(file *ast.File) {
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					p.constants[name.Name] = p.value(v.Values[i])
				}
			}
		}
	}
}

// value is the text of a constant expression.
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
		p.constantTable(d)
	case token.TYPE:
		for _, spec := range d.Specs {
			t := spec.(*ast.TypeSpec)
			if s, ok := t.Type.(*ast.StructType); ok && !strings.HasSuffix(t.Name.Name, "List") {
				p.kind(t.Name.Name, text(d.Doc), s)
			}
		}
	}
}

// constantTable writes one const block: its comment is the heading.
func (p *page) constantTable(d *ast.GenDecl) {
	if len(d.Specs) == 1 && d.Lparen == token.NoPos {
		v := d.Specs[0].(*ast.ValueSpec)
		p.writef("\n`%s`: %s\n", p.constants[v.Names[0].Name], strings.TrimPrefix(text(d.Doc), v.Names[0].Name+" "))
		return
	}
	heading, rest, _ := strings.Cut(strings.TrimSuffix(text(d.Doc), "."), ". ")
	p.writef("\n## %s\n\n", heading)
	if rest != "" {
		p.writef("%s.\n\n", rest)
	}
	p.writef("| name | meaning |\n| --- | --- |\n")
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		name := v.Names[0].Name
		p.writef("| `%s` | %s |\n", p.constants[name], strings.TrimPrefix(text(v.Doc), name+" "))
	}
}

// kind writes one struct: its fields by their names in YAML.
func (p *page) kind(name, doc string, s *ast.StructType) {
	p.writef("\n## %s\n\n%s\n\n| field | meaning |\n| --- | --- |\n", name, doc)
	for _, f := range s.Fields.List {
		tag := ""
		if f.Tag != nil {
			unquoted, _ := strconv.Unquote(f.Tag.Value)
			tag, _, _ = strings.Cut(reflect.StructTag(unquoted).Get("json"), ",")
		}
		if tag == "" || tag == "metadata" {
			continue
		}
		p.writef("| `%s` | %s |\n", tag, strings.TrimPrefix(text(f.Doc), tag+" "))
	}
}

// text is a comment as one paragraph, without markers for tools.
func text(doc *ast.CommentGroup) string {
	var lines []string
	for line := range strings.SplitSeq(doc.Text(), "\n") {
		if !strings.HasPrefix(line, "+") && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.ReplaceAll(strings.Join(lines, " "), "|", `\|`)
}
