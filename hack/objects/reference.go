package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// entry is one name that users see, for example a reason, and its descriptions from all declarations.
type entry struct {
	value     string
	group     string // heading of the block in which it is declared first
	sentences []string
	isEvent   bool
}

// references returns the pages of docs/reference by their names.
func references(files []*ast.File) map[string][]byte {
	p := page{constants: map[string]string{}, types: map[string]*ast.TypeSpec{}, docs: map[string]*ast.CommentGroup{}}
	for _, file := range files {
		p.learn(file)
	}
	reasons := p.entries(files, "Reason", "Event")
	return map[string][]byte{
		"reasons.md": reasonsPage(reasons),
		"events.md":  eventsPage(reasons),
		"labels.md":  labelsPage(p.entries(files, "Label", "Annotation", "Taint", "Finalizer")),
	}
}

// entries collects the constants whose names begin with one of the prefixes, in order. A name that is declared twice is one entry.
func (p *page) entries(files []*ast.File, prefixes ...string) (all []*entry) {
	known := map[string]*entry{}
	for _, file := range files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			group, _, _ := strings.Cut(strings.TrimSuffix(p.text(d.Doc), "."), ". ")
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				name := v.Names[0].Name
				if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
					continue
				}
				value, doc := p.constants[name], v.Doc
				if doc == nil {
					doc = d.Doc
				}
				e := known[value]
				if e == nil {
					e = &entry{value: value, group: group}
					known[value], all = e, append(all, e)
				}
				e.isEvent = e.isEvent || strings.HasPrefix(name, "Event")
				e.sentences = append(e.sentences, p.text(doc))
			}
		}
	}
	return all
}

const generated = "Generated from `api` and `internal/observe/advice` by `make generate`; edit there.\n"

func reasonsPage(reasons []*entry) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Reasons\n\n%s\n%s\n", generated, wrap("Every condition and every event has a reason. Reasons are stable: programs can compare them, and this page has a "+
		"section for each: its address ends with the reason in lower case. The message beside it has the values; it can change."))
	group := ""
	for _, e := range reasons {
		if e.group != group {
			group = e.group
			fmt.Fprintf(&out, "\n## %s\n", group)
		}
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", e.value, wrap(strings.Join(e.sentences, " ")))
		if todo := remedy(e.value); todo != "" {
			fmt.Fprintf(&out, "\n%s\n", todo)
		}
	}
	return out.Bytes()
}

func eventsPage(reasons []*entry) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Events\n\n%s\n%s\n\n", generated, wrap("The operator reports events on the object that they are about, and WICD on its Node. "+
		"`kubectl get events --field-selector reason=HostLeft` shows one kind of them. Besides these, each reason of condition Ready is reported "+
		"as an event of the WindowsInstance when it changes."))
	out.WriteString("| event | when |\n| --- | --- |\n")
	for _, e := range reasons {
		if e.isEvent {
			fmt.Fprintf(&out, "| [`%s`](reasons.md#%s) | %s |\n", e.value, strings.ToLower(e.value), e.sentences[len(e.sentences)-1])
		}
	}
	return out.Bytes()
}

func labelsPage(names []*entry) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Labels and annotations\n\n%s\n%s\n", generated, wrap("The names by which users, the operator and WICD tell each other something, with who writes and who reads each."))
	group := ""
	for _, e := range names {
		if e.group != group {
			group = e.group
			fmt.Fprintf(&out, "\n## %s\n\n", heading(group))
		}
		fmt.Fprintf(&out, "%s\n", wrap("- "+strings.Join(e.sentences, " ")))
	}
	return out.Bytes()
}

// heading returns the first part of a comment, without code.
func heading(text string) string {
	text, _, _ = strings.Cut(text, ":")
	text = strings.ReplaceAll(text, "`", "")
	if first := regexp.MustCompile(`^windowsmachineconfig\.openshift\.io/host `).FindString(text); first != "" {
		return "Finalizer"
	}
	return text
}
