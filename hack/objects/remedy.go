package main

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
)

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
