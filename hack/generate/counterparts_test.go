package main

import (
	"strings"
	"testing"
)

func TestInvalidCounterpartsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ row, want string }{
		"unknown test":       {`{name: a, version: "1", ran: x, tests: [TestMissing], last: "2026-11-27"}`, "counterparts[0] (a): test TestMissing does not exist"},
		"no test":            {`{name: a, version: "1", ran: x, tests: [], last: "2026-11-27"}`, "tests and steps are empty"},
		"unknown step":       {`{name: a, version: "1", ran: x, steps: [e2e-none], last: "2026-11-27"}`, "the Makefile has no target e2e-none"},
		"two tests":          {`{name: a, version: "1", ran: x, tests: [TestRender], last: "2026-11-27"}`, "more than one"},
		"no version":         {`{name: a, ran: x, tests: [TestInvalidCounterpartsAreRejected], last: "2026-11-27"}`, "either pins and package, or version"},
		"no package":         {`{name: a, pins: [payload/cni], ran: x, tests: [TestInvalidCounterpartsAreRejected], last: "2026-11-27"}`, "either pins and package, or version"},
		"package not pinned": {`{name: a, pins: [payload/cni], package: example.com/x, ran: x, tests: [TestInvalidCounterpartsAreRejected], last: "2026-11-27"}`, "example.com/x"},
		"no day":             {`{name: a, version: "1", ran: x, tests: [TestInvalidCounterpartsAreRejected], last: today}`, "today"},
		"unknown field":      {`{name: a, versions: "1"}`, "versions"},
	} {
		if _, err := counterpartsPage("../..", []byte("counterparts:\n- "+test.row+"\n")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", name, err, test.want)
		}
	}
}
