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

// Result has the verdicts of all cases that apply, from one or several runs of the same versions.
type Result struct {
	// Suite is the version of the tests, Cluster the version of the API server, and Where the kind of cluster.
	Suite   string `json:"suite"`
	Cluster string `json:"cluster"`
	Where   string `json:"where"`
	// Date is the day of the last run, as in 2026-11-24, or "" before the first run.
	Date  string    `json:"date"`
	Cases []Verdict `json:"cases"`
}

// maxResult is the maximum size of a file with a result.
const maxResult = 16 << 20

// ReadResult reads a result from a file. It rejects unknown fields and values. If the file does not exist, the result is empty.
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
			return r, fmt.Errorf("reading result %s: case %q is a duplicate or not in order", path, v.Case)
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
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	return os.Rename(temporary, path)
}

// Update returns the result after another run, with all cases that apply. It drops verdicts of other versions of the suite or
// the cluster, and keeps the verdicts of cases that were not run again.
func (r Result) Update(run Result, applying []string) Result {
	known := map[string]Verdict{}
	if r.Suite == run.Suite && r.Where == run.Where && (r.Cluster == run.Cluster || r.Cluster == "") {
		for _, v := range r.Cases {
			known[v.Case] = v
		}
	}
	for _, v := range run.Cases {
		if _, exists := known[v.Case]; v.State != NotRun || !exists {
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

// Done returns the cases that have a verdict from this version of the suite.
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
