package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
)

// entry is one name that users see, for example a reason, and its descriptions from all declarations.
type entry struct {
	value     string
	group     string // heading of the block in which it is declared first
	sentences []string
	isEvent   bool
}

// entries collects the constants whose names begin with one of the prefixes, in order. A name that is declared twice is one entry.
func (s source) entries(prefixes ...string) (all []*entry) {
	known := map[string]*entry{}
	for _, d := range s.decls {
		if d.Tok != token.CONST {
			continue
		}
		group, _ := s.title(d)
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			name := v.Names[0].Name
			if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				continue
			}
			value, doc := s.constants[name], v.Doc
			if doc == nil {
				doc = d.Doc
			}
			e := known[value]
			if e == nil {
				e = &entry{value: value, group: group}
				known[value], all = e, append(all, e)
			}
			e.isEvent = e.isEvent || strings.HasPrefix(name, "Event")
			e.sentences = append(e.sentences, s.text(doc))
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
	fmt.Fprintf(&out, "# Labels and annotations\n\n%s\n%s\n", generated, wrap("The names that users, the operator and WICD use to pass information to each other, with who writes and who reads each."))
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
	return strings.ReplaceAll(text, "`", "")
}

// remedy returns what to do about a reason and a link to more information; empty if nothing has to be done.
func remedy(reason string) string {
	a, known := advice.All()[reason]
	if !known || a.Remedy == "" {
		return ""
	}
	text := "**What to do**: " + strings.ReplaceAll(a.Remedy, "<", `\<`)
	if document, heading, _ := strings.Cut(a.Page, "#"); document != "" {
		target := "../" + document + ".md"
		if heading != "" {
			target += "#" + heading
		}
		text += " More: [" + document + "](" + target + ")."
	}
	return wrap(text)
}
