// Package documents extracts commands and objects from documents for the tests that run them, and maps documents to tests.
package documents

import (
	"errors"
	"fmt"
	"strings"
)

// Block is a code block in a document.
type Block struct {
	// Document is the document's path in the repository; Line is the line of the block's fence.
	Document string
	Line     int
	// Heading is the nearest heading above it, as in "## Install".
	Heading string
	// Language is the language in the fence, as in sh.
	Language string
	// Text is the code, without the indentation of a list.
	Text string
	// NotRun is the reason why no test runs it, from the comment before it: <!-- not run: reason -->.
	NotRun string
}

const (
	fence       = "```"
	comment     = "<!-- not run:"
	commentEnds = "-->"
	prompt      = "$ "
)

// Blocks returns the blocks of a document. It returns an error for a block without an end, and a comment without a reason or a block.
func Blocks(document, text string) (blocks []Block, err error) {
	var (
		next   = Block{Document: document}
		inside bool
		indent int
	)
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case inside && trimmed == fence:
			blocks, inside = append(blocks, next), false
			next = Block{Document: document, Heading: next.Heading}
		case inside:
			next.Text += strings.TrimRight(unindented(line, indent), "\r") + "\n"
		case strings.HasPrefix(trimmed, fence):
			inside, indent = true, len(line)-len(strings.TrimLeft(line, " "))
			next.Line, next.Language = i+1, strings.TrimPrefix(trimmed, fence)
		case strings.HasPrefix(trimmed, comment):
			reason, closed := strings.CutSuffix(strings.TrimPrefix(trimmed, comment), commentEnds)
			if next.NotRun = strings.TrimSpace(reason); !closed || next.NotRun == "" {
				err = errors.Join(err, fmt.Errorf("%s:%d: the comment has no reason, or does not end in this line", document, i+1))
			}
		case trimmed != "":
			if next.NotRun != "" {
				err = errors.Join(err, fmt.Errorf("%s:%d: comment %q is not followed by a block", document, i+1, next.NotRun))
				next.NotRun = ""
			}
			if strings.HasPrefix(line, "#") {
				next.Heading = strings.TrimSpace(line)
			}
		}
	}
	if inside || next.NotRun != "" {
		err = errors.Join(err, fmt.Errorf("%s: the document ends within a block, or with a comment about one", document))
	}
	return blocks, err
}

// unindented returns a line without up to indent leading spaces.
func unindented(line string, indent int) string {
	for range indent {
		rest, found := strings.CutPrefix(line, " ")
		if !found {
			break
		}
		line = rest
	}
	return line
}

// IsCode reports whether the block has commands or objects: a test must run it, or the document must state why none does.
func (b Block) IsCode() bool {
	switch b.Language {
	case "sh", "bash", "console", "powershell", "yaml":
		return true
	}
	return false
}

// Commands splits a block: lines with a prompt and their continuation lines are commands, the others are output. Without any prompt, all lines
// are commands.
func (b Block) Commands() (script, output string) {
	if !strings.Contains("\n"+b.Text, "\n"+prompt) {
		return b.Text, ""
	}
	continued := false
	for line := range strings.Lines(b.Text) {
		command, prompted := strings.CutPrefix(line, prompt)
		if !prompted && !continued {
			output += line
			continue
		}
		script += command
		continued = strings.HasSuffix(strings.TrimRight(command, "\r\n"), `\`)
	}
	return script, output
}

// String returns the position of the block.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Document, b.Line) }
