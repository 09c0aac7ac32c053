// Command objects writes docs/objects.md, the reference of every kind, field and name in api, from the declarations and
// their comments. Generating the page keeps it equal to the code.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
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
	files, err := parse(dirs)
	if err != nil {
		return nil, err
	}
	p := page{constants: map[string]string{}, types: map[string]*ast.TypeSpec{}, docs: map[string]*ast.CommentGroup{}}
	for _, file := range files {
		p.learn(file)
	}
	p.writef("# Objects and names\n\nGenerated from `api` by `make generate`; edit the comments there.\n")
	for _, file := range files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				p.declaration(d)
			}
		}
	}
	return p.out.Bytes(), nil
}

// parse returns the files of the packages in the order of the page, without generated files and tests.
func parse(dirs []string) ([]*ast.File, error) {
	var names []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "zz_") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// rank puts the kinds first and the other files in alphabetical order.
func rank(name string) string {
	base := filepath.Base(name)
	switch base {
	case "windowsinstance.go":
		return "0"
	case "windowsconfig.go":
		return "1"
	case "windowsconfig_rollout.go":
		return "11"
	}
	return "2" + base
}
