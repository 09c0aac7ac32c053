package documents

import (
	"fmt"
	"regexp"
	"strings"
)

// CompareOutput says which line of a documented output was not printed. What differs from run to run counts as equal: addresses, durations and
// the width of columns. Other lines may stand between.
func CompareOutput(documented, printed string) error {
	rest := shapes(printed)
	for _, want := range shapes(documented) {
		for len(rest) > 0 && rest[0] != want {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return fmt.Errorf("nothing printed has the shape %q; printed was\n%s", want, printed)
		}
		rest = rest[1:]
	}
	return nil
}

// shapes are the lines of a text that are not empty, as they are compared.
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
