package windowsupdate

import (
	"slices"
	"strings"
)

// Class is the kind of an update.
type Class string

// Classes of updates.
const (
	// Security are security updates; most cumulative Windows updates are.
	Security Class = "security"
	// Critical are critical updates that are not about security.
	Critical Class = "critical"
	// Definition are definitions and the platform of Microsoft Defender. They come daily and do not change Windows.
	Definition Class = "definition"
	// Other are all others, such as update rollups and previews.
	Other Class = "other"
)

// Classes returns all classes, in the order in which they are shown.
func Classes() []Class { return []Class{Security, Critical, Definition, Other} }

func (c Class) known() Class {
	if !slices.Contains(Classes(), c) {
		return Other
	}
	return c
}

// Category IDs of the update services (https://learn.microsoft.com/previous-versions/windows/desktop/ff357803(v=vs.85)). The last one is a product.
const (
	categorySecurity   = "0fa1201d-4330-4fa8-8ae9-b877473b6441"
	categoryCritical   = "e6cf1350-c01b-414d-a61f-263d14d133b4"
	categoryDefinition = "e0789628-ce08-4437-be74-2495b842f43b"
	productDefender    = "8c3fcc84-7410-4a95-8b89-a166a0190486"
)

// ClassOf returns the class of an update with these category IDs and articles. Definitions are recognized by their article, too, because entries
// of the history may lack categories.
func ClassOf(categories, kbs []string) Class {
	has := func(id string) bool {
		return slices.ContainsFunc(categories, func(c string) bool { return strings.EqualFold(strings.Trim(c, "{}"), id) })
	}
	switch {
	case has(categoryDefinition), has(productDefender), slices.ContainsFunc(kbs, isDefender):
		return Definition
	case has(categorySecurity):
		return Security
	case has(categoryCritical):
		return Critical
	}
	return Other
}

// isDefender reports whether an article is the constant one of Microsoft Defender's definitions or of its platform
// (https://support.microsoft.com/kb/2267602, https://support.microsoft.com/kb/4052623).
func isDefender(kb string) bool { return kb == "KB2267602" || kb == "KB4052623" }

// isTool reports whether an article is that of the Windows Malicious Software Removal Tool, which comes monthly without changing Windows
// (https://support.microsoft.com/kb/890830).
func isTool(kb string) bool { return kb == "KB890830" }
