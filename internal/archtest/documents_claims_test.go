package archtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// everyDocument is for a claim that any document may make, such as the number of a port.
const everyDocument = ""

// claim is a number, a time or a default in a document, and its source in the repository. The expression for the document has one group, and
// its spaces match any space or line break. The expression for the source has one group, or counts its matches, or is the name of a
// constant. The document may also be a file of the API, and the source one of Kubernetes.
type claim struct {
	document, pattern   string
	file, sourcePattern string
}

// claims returns the claims that would mislead a reader who acts on them. Figures that readers need not know do not
// belong in a document.
func claims() []claim {
	return slices.Concat(claimsOfProject(), claimsOfFleet(), claimsOfNetwork(), claimsOfLimits(), claimsOfSettings())
}

// Beginnings of the names of files of Kubernetes, in the versions that the payload pins.
const (
	eachKubernetes   = "kubernetes of each minor version/"
	newestKubernetes = "kubernetes of the newest minor version/"
)

// sources reads the file with which a claim is compared: several for one of Kubernetes.
func (c claim) sources(t *testing.T, kubernetes map[string]string) (texts []string) {
	t.Helper()
	minors := build.Minors()
	name, isUpstream := strings.CutPrefix(c.file, eachKubernetes)
	if !isUpstream {
		minors = minors[len(minors)-1:]
		name, isUpstream = strings.CutPrefix(c.file, newestKubernetes)
	}
	if !isUpstream {
		return []string{read(t, c.file)}
	}
	for _, minor := range minors {
		texts = append(texts, read(t, filepath.Join(kubernetes[minor], name)))
	}
	return texts
}

// defaultOf returns an expression that matches the default of a field of this project's kinds.
func defaultOf(field string) string {
	return `kubebuilder:default="?([^"\n]+?)"?\n(?:\t// .*\n)*\t` + field + ` `
}

// TestDocumentClaimsMatchSources compares claims with their sources.
func TestDocumentClaimsMatchSources(t *testing.T) {
	inRoot(t)
	texts, kubernetes := commentsOfFields(t), payloadtest.Kubernetes(t, ".")
	for _, document := range userDocuments(t) {
		texts[document] = read(t, document)
	}
	for _, c := range claims() {
		for _, source := range c.sources(t, kubernetes) {
			if fault := c.fault(texts, source); fault != "" {
				t.Error(fault)
			}
		}
	}
}

// occurrences returns the positions at which a document makes the claim.
func (c claim) occurrences(document, text string) (found [][2]int) {
	if c.document != everyDocument && c.document != document {
		return nil
	}
	expression := regexp.MustCompile(strings.ReplaceAll(c.pattern, " ", `\s+`))
	for _, m := range expression.FindAllStringSubmatchIndex(text, -1) {
		found = append(found, [2]int{m[2], m[3]})
	}
	return found
}

// fault describes what is wrong with a claim; empty if nothing is.
func (c claim) fault(documents map[string]string, source string) string {
	want, known := c.want(source)
	if !known {
		return fmt.Sprintf("%s has no single match of %s, with which %q of %q is compared: correct or remove the claim", c.file, c.sourcePattern, c.pattern, c.document)
	}
	isFound := false
	for _, document := range slices.Sorted(maps.Keys(documents)) {
		for _, at := range c.occurrences(document, documents[document]) {
			isFound = true
			if got := documents[document][at[0]:at[1]]; measure(got) != measure(want) {
				return fmt.Sprintf("%s has %s where it matches %s, but %s has %s", document, got, c.pattern, c.file, want)
			}
		}
	}
	if !isFound {
		return fmt.Sprintf("%q has no match of %s: correct or remove the claim", c.document, c.pattern)
	}
	return ""
}

// want returns the value in the source, if there is one.
func (c claim) want(source string) (value string, known bool) {
	got := c.sourcePattern
	if regexp.MustCompile(`^\w+$`).MatchString(got) {
		got = `(?m)\b` + got + `(?: \w+)? += ([^/\n]+?)(?: //.*)?$`
	}
	found := regexp.MustCompile(got).FindAllStringSubmatch(source, -1)
	switch {
	case len(found) == 0 || len(found[0]) > 1 && len(found) > 1:
		return "", false
	case len(found[0]) > 1:
		return found[0][1], true
	}
	return strconv.Itoa(len(found)), true
}

// measure normalizes a number, a time, a size or a share, with times in seconds: "ten minutes", "10m" and "10 * time.Minute" are equal.
func measure(text string) string {
	text = strings.NewReplacer("half an hour", "30m", "a quarter of an hour", "15m", "half a minute", "30s", "time.", "", ",", "").Replace(text)
	text = regexp.MustCompile(`(?i)\b[a-z]+\b`).ReplaceAllStringFunc(text, func(word string) string {
		if n, isNumber := numberWords()[strings.ToLower(word)]; isNumber {
			return strconv.Itoa(n)
		}
		return word
	})
	text = strings.Join(strings.Fields(text), "")
	if m := regexp.MustCompile(`^([0-9*]*)(?i:(s|m|h|second|minute|hour|day|year)s?)?$`).FindStringSubmatch(text); m != nil && text != "" {
		product := map[string]int{"": 1, "s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "y": 365 * 24 * 3600}[strings.ToLower(m[2][:min(1, len(m[2]))])]
		for _, factor := range strings.FieldsFunc(m[1], func(r rune) bool { return r == '*' }) {
			n, _ := strconv.Atoi(factor)
			product *= n
		}
		return strconv.Itoa(product)
	}
	if m := regexp.MustCompile(`^([0-9]+)(<<10|<<20|<<30|KiB|MiB|GiB)$`).FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return strconv.Itoa(n << map[string]int{"<<10": 10, "KiB": 10, "<<20": 20, "MiB": 20, "<<30": 30, "GiB": 30}[m[2]])
	}
	if share, err := strconv.ParseFloat(text, 64); err == nil && share > 0 && share < 1 {
		return strconv.FormatFloat(100*share, 'g', 3, 64)
	}
	return text
}

func numberWords() map[string]int {
	return map[string]int{"a": 1, "an": 1, "one": 1, "two": 2, "twice": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
		"ten": 10, "fifteen": 15, "twenty": 20, "forty": 40}
}

func TestWrongClaimsAreDetected(t *testing.T) {
	inRoot(t)
	waits := claim{pattern: `waits (\w+ minutes)`, sourcePattern: `patience = (.+)`}
	counts := claim{pattern: `has (\w+) cases`, sourcePattern: `(?m)^case`}
	for name, test := range map[string]struct {
		claim            claim
		document, source string
		isWrong          bool
	}{
		"the same time":             {waits, "It waits ten minutes.", "const patience = 10 * time.Minute\n", false},
		"another time":              {waits, "It waits 15 minutes.", "const patience = 10 * time.Minute\n", true},
		"another time elsewhere":    {waits, "It waits ten minutes. It waits 5 minutes.", "const patience = 10 * time.Minute\n", true},
		"another unit":              {waits, "It waits ten minutes.", "const patience = 10 * time.Second\n", true},
		"no such sentence any more": {waits, "It waits.", "const patience = 10 * time.Minute\n", true},
		"no such constant any more": {waits, "It waits ten minutes.", "", true},
		"two constants":             {waits, "It waits ten minutes.", "patience = 10 * time.Minute\npatience = time.Minute\n", true},
		"the same with a product":   {claim{pattern: `waits (a quarter of an hour)`, sourcePattern: "patience"}, "It waits a quarter of an hour.", "\tpatience = 15 * time.Minute // long\n", false},
		"the same in seconds":       {claim{pattern: `waits (a day)`, sourcePattern: `> ([0-9 *]+)`}, "It waits\na day.", "age > 24 * 3600", false},
		"the same size":             {claim{pattern: `at most ([0-9]+ KiB)`, sourcePattern: "most"}, "It has at most 64 KiB.", "const most = 64 << 10\n", false},
		"another unit of size":      {claim{pattern: `at most ([0-9]+ KiB)`, sourcePattern: "most"}, "It has at most 64 KiB.", "const most = 64 << 20\n", true},
		"the same share":            {claim{pattern: `below ([0-9]+) %`, sourcePattern: `< (0\.[0-9]+)`}, "It is below 4 %.", "left < 0.04", false},
		"the same count":            {counts, "It has two cases.", "case a\ncase b\n", false},
		"another count":             {counts, "It has two cases.", "case a\ncase b\ncase c\n", true},
	} {
		if fault := test.claim.fault(map[string]string{"document": test.document}, test.source); (fault != "") != test.isWrong {
			t.Errorf("%s: the fault is %q", name, fault)
		}
	}
}
