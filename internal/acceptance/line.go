package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Line is something that could not be tried on a real Windows. It has exactly one of Try, Tests and Reason.
type Line struct {
	// ID names the line in reports. It stays the same as long as the line does.
	ID string
	// Title and Text are the line of the document, Text in Markdown.
	Title, Text string
	// Claim is what is confirmed or refuted. A line that no program can try has none.
	Claim string
	// Changes says what Try changes for a while; empty when it changes nothing.
	Changes string
	// Needs is what the user must allow for Try, as in Options.Allowed; empty for what every run tries.
	Needs string
	// Try returns nil where the claim holds, an error of untriedf where that cannot be told, and else what contradicts it. seen
	// is what it saw, for people.
	Try func(ctx context.Context, s *session) (seen string, err error)
	// Tests are names of tests of package internal/win. The claim holds when all of them pass.
	Tests []string
	// Reason is why no program can try it on one machine.
	Reason string
}

// Lines are all lines, in the order of the document.
func Lines() []Line {
	return slices.Concat(machineLines(), featureLines(), healthLines(), fileLines(), loginLines(), serviceLines(), processLines(), networkLines(), podLines())
}

var errUntried = errors.New("could not be tried")

// untriedf is the error of a probe that cannot tell whether its claim holds.
func untriedf(format string, values ...any) error {
	return fmt.Errorf("%w: %w", errUntried, fmt.Errorf(format, values...))
}
