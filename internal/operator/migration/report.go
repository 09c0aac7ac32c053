package migration

import (
	"fmt"
	"io"
	"slices"
)

// Blocked reports whether a finding must be fixed first.
func Blocked(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Blocks })
}

func headings() map[Level]string {
	return map[Level]string{
		Blocks:     "Correct this first:",
		Unknown:    "This could not be checked (run it as a cluster administrator):",
		Changes:    "This changes:",
		Stays:      "This stays:",
		Afterwards: "Delete this afterwards:",
	}
}

// Write writes the findings as text, grouped by level.
func Write(w io.Writer, all []Finding) error {
	heading := headings()
	for _, level := range Levels() {
		first := true
		for _, f := range all {
			if f.Level != level {
				continue
			}
			if first {
				if _, err := fmt.Fprintf(w, "%s\n", heading[level]); err != nil {
					return err
				}
				first = false
			}
			if _, err := fmt.Fprintf(w, "  %s: %s\n", f.About, f.Message); err != nil {
				return err
			}
		}
	}
	result := "Nothing blocks the migration."
	if Blocked(all) {
		result = "The migration is blocked: see the first list."
	}
	_, err := fmt.Fprintln(w, result)
	return err
}
