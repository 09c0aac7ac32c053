package dashboard

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// maxDetailed is the number of hosts that a report describes in full: the most urgent ones.
const maxDetailed = 200

// report writes the state of a fleet as HTML. All text from hosts and users is escaped. The page has no scripts and loads nothing from
// elsewhere.
func report(w io.Writer, f fleetstatus.Fleet, cluster string) error {
	style, err := assets.ReadFile("assets/app.css")
	if err != nil {
		return err
	}
	page, err := template.New("report.html").Funcs(template.FuncMap{
		"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"seconds": func(s float64) string { return fmt.Sprintf("%.1f s", s) },
	}).ParseFS(assets, "report.html")
	if err != nil {
		return err
	}
	detailed := slices.Clone(f.Hosts)
	slices.SortStableFunc(detailed, func(a, b fleetstatus.Host) int { return a.Severity.Compare(b.Severity) })
	return page.Execute(w, map[string]any{
		"Cluster": cluster, "Fleet": f, "Overview": overviewOf(f), "Style": template.CSS(style), //nolint:gosec // a file of this program
		"Detailed": detailed[:min(len(detailed), maxDetailed)], "Omitted": max(0, len(detailed)-maxDetailed),
	})
}
