package archtest

import (
	"go/ast"
	"regexp"
	"testing"
)

// TestClientsFollowNoRedirects prevents redirects from leaking credentials: HTTP clients come from internal/shared/httpclient, and a
// function that creates a client-go configuration, from which others create clients, wraps it there.
func TestClientsFollowNoRedirects(t *testing.T) {
	inRoot(t)
	clients := regexp.MustCompile(`^(http\.(Client|DefaultClient|DefaultTransport|Get|Head|Post|PostForm)|rest\.HTTPClientFor)$`)
	fset, packages := sources(t)
	for _, p := range packages {
		if p.dir == "internal/shared/httpclient" {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.StarExpr: // a pointer to a client created elsewhere
					s, ok := n.X.(*ast.SelectorExpr)
					return !ok || selector(s) != "http.Client"
				case *ast.SelectorExpr:
					if clients.MatchString(selector(n)) {
						t.Errorf("%s: %s follows redirects, or has no deadline; use httpclient.New", fset.Position(n.Pos()), selector(n))
					}
				case *ast.FuncDecl:
					if configures, wraps := configurations(n); configures && !wraps {
						t.Errorf("%s: %s creates a configuration whose clients follow redirects; wrap it with httpclient.RefuseRedirects", fset.Position(n.Pos()), n.Name.Name)
					}
				}
				return true
			})
		}
	}
}

// configurations reports whether a function creates a client-go configuration, and whether its clients refuse redirects.
func configurations(f *ast.FuncDecl) (makes, wraps bool) {
	makers := regexp.MustCompile(`^(rest\.InClusterConfig|clientcmd\.(BuildConfig|RESTConfig)\w*|(config|ctrl)\.GetConfig\w*|\w*\.ClientConfig)$`)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			makes = makes || ok && makers.MatchString(selector(s))
		case *ast.CompositeLit:
			s, ok := n.Type.(*ast.SelectorExpr)
			makes = makes || ok && selector(s) == "rest.Config"
		case *ast.SelectorExpr:
			wraps = wraps || selector(n) == "httpclient.New" || selector(n) == "httpclient.RefuseRedirects"
		}
		return true
	})
	return makes, wraps
}

func selector(s *ast.SelectorExpr) string {
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return "." + s.Sel.Name
}
