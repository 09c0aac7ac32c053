package documents

import (
	"fmt"
	"regexp"
	"strings"
)

// CompareOutput returns an error for the first line of a documented output that was not printed. It ignores what differs between runs:
// addresses, durations and column widths. Other lines may be in between.
func CompareOutput(documented, printed string) error {
	rest := shapes(printed)
	for _, want := range shapes(documented) {
		for len(rest) > 0 && rest[0] != want {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return fmt.Errorf("no printed line has the shape %q; output:\n%s", want, printed)
		}
		rest = rest[1:]
	}
	return nil
}

// shapes returns the non-empty lines of a text, in normalized form.
func shapes(text string) (lines []string) {
	address := regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+$`)
	duration := regexp.MustCompile(`^(\d+[dhms])+$`)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for i, f := range fields {
			switch {
			case address.MatchString(f):
				fields[i] = "<address>"
			case duration.MatchString(f):
				fields[i] = "<duration>"
			}
		}
		if len(fields) > 0 {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return lines
}
