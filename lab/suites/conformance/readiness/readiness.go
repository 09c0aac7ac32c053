// Package readiness writes docs/readiness.md: the results of Kubernetes' own tests on Windows nodes of the operator.
package readiness

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab/suites/conformance/suite"
)

//go:embed rows.yaml
var rowsText []byte

// Row is a row of the document: a feature and the cases that test it.
type Row struct {
	Name     string `json:"name"`
	Table    string `json:"table"` // tableKEP or tableReadiness
	Category string `json:"category,omitempty"`
	Feature  string `json:"feature"`
	// Cases is a regular expression for the names of cases; Why is the reason if there are none.
	Cases string `json:"cases,omitempty"`
	Why   string `json:"why,omitempty"`
}

// The tables of the document.
const (
	tableKEP       = "kep"
	tableReadiness = "readiness"
)

// Rows returns the rows of the document.
func Rows() ([]Row, error) { return parseRows(rowsText) }

func parseRows(text []byte) ([]Row, error) {
	var rows []Row
	if err := yaml.UnmarshalStrict(text, &rows); err != nil {
		return nil, fmt.Errorf("reading the rows: %w", err)
	}
	name := regexp.MustCompile(`^[a-z-]+$`)
	seen := map[string]bool{}
	for _, r := range rows {
		_, err := regexp.Compile(r.Cases)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading row %q: %w", r.Name, err)
		case !name.MatchString(r.Name) || seen[r.Name]:
			return nil, fmt.Errorf("reading row %q: its name is a duplicate, or has characters other than a to z and -", r.Name)
		case r.Table != tableKEP && r.Table != tableReadiness:
			return nil, fmt.Errorf("reading row %q: unknown table %q", r.Name, r.Table)
		case r.Feature == "" || (r.Cases == "") == (r.Why == ""):
			return nil, fmt.Errorf("reading row %q: it needs a feature, and either cases or why", r.Name)
		}
		seen[r.Name] = true
	}
	return rows, nil
}

// Names returns the regular expressions of rows by their names.
func Names(rows []Row) map[string]string {
	names := map[string]string{}
	for _, r := range rows {
		if r.Cases != "" {
			names[r.Name] = r.Cases
		}
	}
	return names
}

// Write writes the document for a result.
func Write(path string, result suite.Result, expected []suite.Expectation) error {
	rows, err := Rows()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(Render(rows, result, expected)), 0o644); err != nil {
		return fmt.Errorf("writing the results of the tests: %w", err)
	}
	return nil
}

// Render returns the document for a result.
func Render(rows []Row, result suite.Result, expected []suite.Expectation) string {
	j := suite.Compare(result.Cases, expected)
	var b strings.Builder
	b.WriteString(beginning)
	if result.Date == "" {
		fmt.Fprintf(&b, "Suite %s, %d cases. **It has not been run yet.**\n", result.Suite, len(result.Cases))
	} else {
		fmt.Fprintf(&b, "Suite %s, cluster %s, last run on %s, %d cases:\n\n**%s**\n", result.Suite, result.Cluster, result.Date, len(result.Cases), j.Totals())
	}
	known := map[string]suite.Expectation{}
	for _, e := range expected {
		known[e.Case] = e
	}
	for _, table := range []struct{ name, heading, columns string }{
		{tableKEP, "Windows nodes in Kubernetes", "| feature | outcome | repeat |\n| --- | --- | --- |\n"},
		{tableReadiness, "Operational readiness", "| category | feature | outcome | repeat |\n| --- | --- | --- | --- |\n"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s", table.heading, table.columns)
		for _, r := range rows {
			if r.Table != table.name {
				continue
			}
			cells := []string{r.Feature, r.outcome(result.Cases, known), r.command()}
			if table.name == tableReadiness {
				cells = append([]string{r.Category}, cells...)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	renderFailures(&b, j, known)
	return b.String()
}

const beginning = `# Readiness

Kubernetes' own tests on Windows nodes that the operator joined: those of the conformance suite that apply to Windows
(without ` + "`[LinuxOnly]` and `[Serial]`" + `), and those of SIG Windows. The nodes are hosts of the
[lab](https://github.com/windows-machine-config/wmco/blob/main/lab/README.md), where Windows is Wine: a case that passes
shows that operator, kubelet.exe, containerd.exe and kube-proxy.exe do their part, not that Windows does its own.
` + "`make conformance`" + ` writes this page; with ` + "`KUBECONFIG`" + ` it runs the same cases on any cluster
([development.md](development.md#run-kubernetes-own-tests)).

`

// command returns the command that runs the cases of a row again.
func (r Row) command() string {
	if r.Cases == "" {
		return ""
	}
	return "`make conformance ONLY=" + r.Name + "`"
}

// outcome returns the numbers of verdicts of a row, and the reasons of cases that failed or were not run.
func (r Row) outcome(verdicts []suite.Verdict, known map[string]suite.Expectation) string {
	if r.Cases == "" {
		return "cannot be tried in the lab: " + r.Why
	}
	cases := regexp.MustCompile(r.Cases)
	count := map[string]int{}
	reasons := map[string]bool{}
	for _, v := range verdicts {
		if !cases.MatchString(v.Case) {
			continue
		}
		e, listed := known[v.Case]
		switch {
		case listed && e.Untried:
			count["cannot be tried in the lab"]++
			reasons[e.Why] = true
		case listed && v.State == suite.Failed:
			count["failed"]++
			reasons[fmt.Sprintf("%s: %s", e.Cause, e.Why)] = true
		case v.State == suite.Failed:
			count["failed"]++
			reasons["cause not known"] = true
		case v.State == suite.Skipped:
			count["skipped by the suite"]++
			reasons[v.Message] = true
		default:
			count[string(v.State)]++
		}
	}
	var parts []string
	for _, state := range []string{string(suite.Passed), "failed", "cannot be tried in the lab", "skipped by the suite", string(suite.NotRun)} {
		if count[state] > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", state, count[state]))
		}
	}
	if len(parts) == 0 {
		return "no such case in this version"
	}
	text := strings.Join(parts, ", ")
	if len(reasons) > 0 {
		text += " (" + cell(strings.Join(slices.Sorted(maps.Keys(reasons)), "; ")) + ")"
	}
	return text
}

// renderFailures lists all cases that failed.
func renderFailures(b *strings.Builder, j suite.Comparison, known map[string]suite.Expectation) {
	b.WriteString("\n## Cases that failed\n\n")
	if len(j.Expected)+len(j.Unexpected) == 0 {
		b.WriteString("None.\n")
		return
	}
	b.WriteString("| case | cause |\n| --- | --- |\n")
	for _, v := range j.Expected {
		e := known[v.Case]
		fmt.Fprintf(b, "| %s | %s: %s |\n", cell(v.Case), e.Cause, cell(e.Why))
	}
	for _, v := range j.Unexpected {
		fmt.Fprintf(b, "| %s | not known: %s |\n", cell(v.Case), cell(v.Message))
	}
}

// cell returns text as the cell of a Markdown table: it shortens and escapes it.
func cell(text string) string {
	const maxLength = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxLength {
		text = strings.ToValidUTF8(text[:maxLength], "") + "..."
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "[", `\[`, "]", `\]`, "*", `\*`, "`", "'").Replace(text)
}
