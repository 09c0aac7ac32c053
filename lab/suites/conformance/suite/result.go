package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Result is what is known of all cases that apply, of one or several runs of the same versions.
type Result struct {
	// Suite is the version of the tests, Cluster that of the API server, and Where the kind of cluster.
	Suite   string `json:"suite"`
	Cluster string `json:"cluster"`
	Where   string `json:"where"`
	// Date is the day of the last run, as in 2026-11-24; empty before the first.
	Date  string    `json:"date"`
	Cases []Verdict `json:"cases"`
}

// maxResult is the largest file with a result.
const maxResult = 16 << 20

// ReadResult reads a file with a result, strictly. A file that does not exist is an empty result.
func ReadResult(path string) (Result, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("reading a result: %w", err)
	}
	if info.Size() > maxResult {
		return Result{}, fmt.Errorf("reading a result: %s is larger than %d bytes", path, maxResult)
	}
	f, err := os.Open(path)
	if err != nil {
		return Result{}, fmt.Errorf("reading a result: %w", err)
	}
	defer f.Close()
	var r Result
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("reading result %s: %w", path, err)
	}
	for i, v := range r.Cases {
		if !slices.Contains([]State{Passed, Failed, Skipped, NotRun}, v.State) {
			return r, fmt.Errorf("reading result %s: case %q has the unknown state %q", path, v.Case, v.State)
		}
		if i > 0 && r.Cases[i-1].Case >= v.Case {
			return r, fmt.Errorf("reading result %s: case %q is there twice or not in its place", path, v.Case)
		}
	}
	return r, nil
}

// Write writes a result to a file.
func (r Result) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	beside := path + ".new"
	if err := os.WriteFile(beside, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	return os.Rename(beside, path)
}

// Update returns the result after another run. It has all cases that apply. Results of another version of the suite or of the cluster are dropped;
// results of cases that the run did not reach are kept.
func (r Result) Update(run Result, applying []string) Result {
	known := map[string]Verdict{}
	if r.Suite == run.Suite && r.Where == run.Where && (r.Cluster == run.Cluster || r.Cluster == "") {
		for _, v := range r.Cases {
			known[v.Case] = v
		}
	}
	for _, v := range run.Cases {
		if _, before := known[v.Case]; v.State != NotRun || !before {
			known[v.Case] = v
		}
	}
	run.Cases = nil
	for _, name := range applying {
		v, found := known[name]
		if !found {
			v = Verdict{Case: name, State: NotRun}
		}
		run.Cases = append(run.Cases, v)
	}
	slices.SortFunc(run.Cases, func(a, b Verdict) int { return strings.Compare(a.Case, b.Case) })
	return run
}

// Done are the cases on which this version of the suite has a verdict.
func (r Result) Done(version string) []string {
	if r.Suite != version {
		return nil
	}
	var names []string
	for _, v := range r.Cases {
		if v.State != NotRun {
			names = append(names, v.Case)
		}
	}
	return names
}
