package documents

import (
	"slices"
	"strings"
	"testing"
)

const document = "# A\n\n" +
	"```sh\none\n  two\n```\n\n" +
	"## B\n\n1. In a list:\n\n    <!-- not run: needs a console -->\n\n    ```yaml\n    a:\n      b: 1\n    ```\n\n" +
	"### C\n\n```console\n$ get a \\\n    -n b\nNAME   AGE\na      1m\n$ get c\nnothing\n```\n" +
	"```\n# no heading\n```\n"

func TestBlocksAreExtracted(t *testing.T) {
	want := []Block{
		{Document: "a.md", Line: 3, Heading: "# A", Language: "sh", Text: "one\n  two\n"},
		{Document: "a.md", Line: 14, Heading: "## B", Language: "yaml", Text: "a:\n  b: 1\n", NotRun: "needs a console"},
		{Document: "a.md", Line: 21, Heading: "### C", Language: "console", Text: "$ get a \\\n    -n b\nNAME   AGE\na      1m\n$ get c\nnothing\n"},
		{Document: "a.md", Line: 29, Heading: "### C", Text: "# no heading\n"},
	}
	got, err := Blocks("a.md", document)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the blocks are (%v)\n%+v, want\n%+v", err, got, want)
	}
}

func TestInvalidDocumentsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ text, wantErr string }{
		"a block without an end":    {"```sh\na\n", "ends within a block"},
		"a comment without a block": {"<!-- not run: needs a console -->\n\ntext\n", "is not followed by a block"},
		"a comment at the end":      {"<!-- not run: needs a console -->\n", "with a comment about one"},
		"a comment without reason":  {"<!-- not run: -->\n```sh\na\n```\n", "a.md:1: the comment has no reason"},
		"a comment of two lines":    {"<!-- not run: needs\na console -->\n```sh\na\n```\n", "does not end in this line"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Blocks("a.md", test.text); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestCommandsAreSeparatedFromOutput(t *testing.T) {
	for text, want := range map[string][2]string{
		"a\nb\n":                  {"a\nb\n", ""},
		"$ a \\\n    b\nc\n$ d\n": {"a \\\n    b\nd\n", "c\n"},
		"a --set b='$ c'\n":       {"a --set b='$ c'\n", ""},
	} {
		if script, output := (Block{Text: text}).Commands(); script != want[0] || output != want[1] {
			t.Errorf("%q has commands %q and output %q, want %q", text, script, output, want)
		}
	}
}

func TestOutputIsComparedByShape(t *testing.T) {
	const documented = "NAME        STATUS   AGE\n10.1.42.1   Ready    2m\n"
	for printed, want := range map[string]bool{
		"NAME          STATUS   AGE\n10.98.0.200   Ready    1h3m\n":                    true,
		"Warning: old\nNAME      STATUS   AGE\n10.98.0.2   Ready    9s\n":              true,
		"NAME        STATUS   AGE\n10.1.42.1   Joining  2m\n":                          false,
		"NAME        STATE    AGE\n10.1.42.1   Ready    2m\n":                          false,
		"10.1.42.1   Ready    2m\nNAME        STATUS   AGE\n":                          false,
		"NAME        STATUS   AGE\n":                                                   false,
		"NAME      STATUS   AGE\n10.98.0.2   Joining  9s\n10.98.0.3     Ready    9s\n": true,
		"": false,
	} {
		if err := CompareOutput(documented, printed); (err == nil) != want {
			t.Errorf("%q: %v", printed, err)
		}
	}
}

func FuzzBlocks(f *testing.F) {
	for _, text := range []string{document, "", "```", "  ```sh\n a\n  ```\n```\n```\n", "<!-- not run:", "<!-- not run: a b c -->\n```yaml\n```\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		blocks, err := Blocks("a.md", text)
		if len(blocks) > strings.Count(text, fence)/2 {
			t.Errorf("%d blocks of %q", len(blocks), text)
		}
		size := 0
		for _, b := range blocks {
			script, output := b.Commands()
			size += len(b.Text)
			if strings.Count(script, "\n")+strings.Count(output, "\n") != strings.Count(b.Text, "\n") {
				t.Errorf("%q has commands %q and output %q", b.Text, script, output)
			}
			if line := strings.Split(text, "\n")[b.Line-1]; !strings.HasPrefix(strings.TrimSpace(line), fence) {
				t.Errorf("line %d is %q (%v)", b.Line, line, err)
			}
		}
		if size > len(text) {
			t.Errorf("the blocks have %d bytes of %d", size, len(text))
		}
	})
}
