package bugreports

import (
	"net/url"
	"slices"
	"testing"
)

// report is one reported case.
type report struct {
	link  string // where it was reported: https
	input string // what the administrator has, in words
	want  string // the correct outcome, in the words of outcome
	// outcome runs the case with the product's code and returns the result.
	outcome func(t *testing.T) string
}

func reports() []report {
	return slices.Concat(
		podReports(),
		joinReports(),
		hostReports(),
		sshReports(),
		certificateReports(),
		workloadReports(),
		registryReports(),
		clusterReports(),
		serviceReports(),
		drainReports(),
		restartReports(),
	)
}

func TestReportsFromTheField(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range reports() {
		t.Run(r.input, func(t *testing.T) {
			if link, err := url.Parse(r.link); err != nil || link.Scheme != "https" || link.Host == "" {
				t.Errorf("link %q of the report, want https", r.link)
			}
			if r.input == "" || r.want == "" || seen[r.input] {
				t.Errorf("a report needs an input of its own and an expected outcome")
			}
			seen[r.input] = true
			if got := r.outcome(t); got != r.want {
				t.Errorf("%s\n got: %s\nwant: %s", r.link, got, r.want)
			}
		})
	}
}
