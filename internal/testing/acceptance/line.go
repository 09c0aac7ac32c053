package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Line is one assumption about Windows that was not tested on a real Windows. Exactly one of Try, Tests and Reason is set.
type Line struct {
	// ID identifies the line in reports. It never changes.
	ID string
	// Title and Text are the text of the line in the document; Text is Markdown.
	Title, Text string
	// Claim is the statement that is confirmed or refuted. It is empty if no program can test it.
	Claim string
	// Changes describes what Try changes temporarily; empty if nothing.
	Changes string
	// Needs is the permission that Try needs, as in Options.Allowed; empty if every run tests the line.
	Needs string
	// Try returns nil if the claim holds, an untriedErrorf error if that cannot be determined, and otherwise an error that says what contradicts the
	// claim. seen is the human-readable observation.
	Try func(ctx context.Context, s *session) (seen string, err error)
	// Tests are names of tests of package internal/node/win. The claim holds if all of them pass.
	Tests []string
	// Reason is why no program can test the claim on a single machine.
	Reason string
}

// Lines returns all lines, in the order of the document.
func Lines() []Line {
	return slices.Concat(machineLines(), featureLines(), healthLines(), fileLines(), loginLines(), serviceLines(), processLines(), networkLines(), podLines())
}

var errUntried = errors.New("could not be tried")

// findings are what a probe with several checks saw, and what contradicts its claim.
type findings struct{ seen, wrong []string }

// result returns the findings as Line.Try does.
func (f findings) result() (string, error) {
	text := strings.Join(f.seen, "\n")
	if len(f.wrong) > 0 {
		return "", errors.New(strings.Join(append(f.wrong, text), "\n"))
	}
	return text, nil
}

// untriedErrorf returns the error of a probe that cannot determine whether its claim holds.
func untriedErrorf(format string, values ...any) error {
	return fmt.Errorf("%w: %w", errUntried, fmt.Errorf(format, values...))
}
