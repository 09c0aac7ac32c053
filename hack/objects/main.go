// Command objects writes docs/objects.md, the reference of every kind, field and name in api, and the pages of
// docs/reference, from the declarations and their comments. Generating the pages keeps them equal to the code.
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
		fmt.Fprintln(os.Stderr, "usage: objects <folder of the documents> <folders of the api packages>")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes all pages.
func write(docs string, dirs []string) error {
	objects, err := render(dirs)
	if err != nil {
		return err
	}
	files, err := parse(dirs)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(docs, "objects.md"), objects, 0o644); err != nil {
		return err
	}
	for name, page := range references(files) {
		if err := os.WriteFile(filepath.Join(docs, "reference", name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
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

// rank sorts the kinds first and the other files alphabetically.
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
