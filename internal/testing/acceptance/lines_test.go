package acceptance

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const document = "../../../docs/limitations.md"

// TestLimitationsDocumentMatchesLines compares docs/limitations.md with Lines. With -update, it writes the list to the document.
func TestLimitationsDocumentMatchesLines(t *testing.T) {
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), documentBegin)
	list, after, ends := strings.Cut(rest, documentEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks one of the comments %q and %q", document, documentBegin, documentEnd)
	}
	want := "\n" + markdown(Lines()) + "\n"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(document, []byte(before+documentBegin+want+documentEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("%s differs from the list of this package; make generate writes it (-want +got):\n%s", document, diff)
	}
}

func TestEachLineHasProbeTestsOrReason(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, l := range Lines() {
		count := 0
		for _, isSet := range []bool{l.Try != nil, len(l.Tests) > 0, l.Reason != ""} {
			if isSet {
				count++
			}
		}
		switch {
		case count != 1:
			t.Errorf("%s has %d of a probe, tests and a reason, want one", l.ID, count)
		case !id.MatchString(l.ID) || seen[l.ID]:
			t.Errorf("%q is not an ID, or another line has it", l.ID)
		case l.Title == "" || !strings.HasSuffix(l.Text, ".") && !strings.HasSuffix(l.Text, ")"):
			t.Errorf("%s lacks a title, or its text is no sentence: %q", l.ID, l.Text)
		case (l.Claim == "") != (l.Reason != ""):
			t.Errorf("%s has the claim %q and the reason %q, want one", l.ID, l.Claim, l.Reason)
		case l.Changes != "" && l.Try == nil:
			t.Errorf("%s changes something without a probe", l.ID)
		}
		seen[l.ID] = true
		for _, part := range []string{l.Claim, l.Changes, l.Reason} {
			if part != "" && strings.HasSuffix(part, ".") || strings.HasPrefix(part, " ") {
				t.Errorf("%s: %q is to be a part of a sentence", l.ID, part)
			}
		}
	}
}

// TestLinesReferToExistingTests searches the sources of the tests and of the contracts for them.
func TestLinesReferToExistingTests(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"../../node/win/*_test.go", "../sim/contract/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(content)
		}
	}
	for _, l := range Lines() {
		for _, name := range l.Tests {
			test, part, hasPart := strings.Cut(name, "/")
			if !strings.Contains(sources.String(), "func "+test+"(t *testing.T)") || hasPart && !strings.Contains(sources.String(), `{"`+part+`", `) {
				t.Errorf("%s names test %s, which does not exist", l.ID, name)
			}
		}
	}
}

func TestListItemsAreWrapped(t *testing.T) {
	item := "- **A**: " + strings.Repeat("word ", 60)
	for i, line := range strings.Split(strings.TrimSuffix(wrap(item), "\n"), "\n") {
		if len(line) > columns || len(line) < 20 || i > 0 && !strings.HasPrefix(line, "  word") || strings.IndexFunc(line, unicode.IsControl) >= 0 {
			t.Errorf("line %d: %q", i, line)
		}
	}
}

// TestMain also makes the test binary the program that probes start.
func TestMain(m *testing.M) {
	if known, err := Command(os.Args[1:], os.Stdin, os.Stdout); known {
		code := Exit(0)
		if err != nil && !errors.As(err, &code) {
			code = 1
		}
		os.Exit(int(code))
	}
	flag.Bool("update", false, "write the list to "+document)
	os.Exit(m.Run())
}

// The comments around the list in docs/limitations.md.
const (
	documentBegin = "<!-- The list of internal/testing/acceptance, written by make generate. -->\n"
	documentEnd   = "<!-- The end of that list. -->\n"
)

// columns is the width of documents.
const columns = 120

// markdown formats lines as a Markdown list.
func markdown(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		text := "- **" + l.Title + "** (`" + l.ID + "`): " + l.Text
		if l.Claim != "" {
			text += " *To be confirmed: " + l.Claim + ".*"
		} else {
			text += " *Not tested by a program: " + l.Reason + ".*"
		}
		b.WriteString(wrap(text))
	}
	return b.String()
}

// wrap breaks a list item into lines.
func wrap(item string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(item) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns:
			b.WriteString("\n  ")
			width = 2
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String() + "\n"
}
