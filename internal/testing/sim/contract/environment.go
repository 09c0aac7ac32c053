package contract

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Names of the tests' variables. The fixture removes those of earlier runs.
const (
	FirstVariable  = "WICD_CONTRACT_FIRST"
	SecondVariable = "WICD_CONTRACT_SECOND"
	ThirdVariable  = "WICD_CONTRACT_THIRD"
)

// Variables returns FirstVariable, SecondVariable and ThirdVariable.
func Variables() []string { return []string{FirstVariable, SecondVariable, ThirdVariable} }

// EnvironmentFixture is the environment of a machine for one test, with at least one variable, but none of Variables. The fixture
// cleans up after the test.
type EnvironmentFixture struct {
	Environment hostapi.Environment
	// Give sets a variable of the machine, like another program.
	Give func(t *testing.T, name, value string)
	// All is the environment of the machine in Windows' form.
	All func(t *testing.T) map[string]string
}

// Environment checks the contract of hostapi.Environment.
func Environment(t *testing.T, fixture func(t *testing.T) EnvironmentFixture) {
	run(t, fixture, []test[EnvironmentFixture]{
		{"SetStoresExactValues", setStoresExactValues},
		{"SettingTwiceChangesNothing", settingTwiceChangesNothing},
		{"SetChangesOnlyDifferences", setChangesOnlyDifferences},
		{"ManagedVariablesWithoutValueAreRemoved", managedVariablesWithoutValueAreRemoved},
		{"ForeignVariablesStay", foreignVariablesStay},
		{"VariableNamesIgnoreCase", variableNamesIgnoreCase},
		{"InvalidVariablesAreRejected", invalidVariablesAreRejected},
	})
}

// values contains values that programs have damaged: lists with commas, percent-encoded characters that look like the name of a variable, characters
// beyond the Basic Multilingual Plane, and the empty string.
func values() map[string]string {
	return map[string]string{
		FirstVariable:  `http://user:p%40ss%SystemRoot%"=&;@proxy.example:3128/`,
		SecondVariable: ".cluster.local,.svc,10.0.0.0/16,::1, Überwachung 𝄞",
		ThirdVariable:  "",
	}
}

func mustSet(t *testing.T, f EnvironmentFixture, variables map[string]string, ours ...string) (changed []string) {
	t.Helper()
	changed, err := f.Environment.Set(deadline(t), variables, ours)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// expectVariables compares the machine's values of Variables.
func expectVariables(t *testing.T, f EnvironmentFixture, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name, value := range f.All(t) {
		if strings.HasPrefix(strings.ToUpper(name), "WICD_CONTRACT_") {
			got[name] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the machine's variables (-want +got):\n%s", diff)
	}
}

func expectNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: names that changed (-want +got):\n%s", what, diff)
	}
}

func setStoresExactValues(t *testing.T, f EnvironmentFixture) {
	changed := mustSet(t, f, values(), Variables()...)
	expectNames(t, "all are new", changed, FirstVariable, SecondVariable, ThirdVariable)
	expectVariables(t, f, values())
}

func settingTwiceChangesNothing(t *testing.T, f EnvironmentFixture) {
	mustSet(t, f, values(), Variables()...)
	expectNames(t, "again", mustSet(t, f, values(), Variables()...))
	expectVariables(t, f, values())
}

func setChangesOnlyDifferences(t *testing.T, f EnvironmentFixture) {
	want := values()
	mustSet(t, f, want, Variables()...)
	want[SecondVariable] = ".svc"
	expectNames(t, "another value", mustSet(t, f, want, Variables()...), SecondVariable)
	f.Give(t, FirstVariable, "another")
	expectNames(t, "another program changed it", mustSet(t, f, want, Variables()...), FirstVariable)
	expectVariables(t, f, want)
}

func managedVariablesWithoutValueAreRemoved(t *testing.T, f EnvironmentFixture) {
	want := values()
	mustSet(t, f, want)
	delete(want, FirstVariable)
	expectNames(t, "not managed", mustSet(t, f, want, SecondVariable))
	delete(want, SecondVariable)
	expectNames(t, "ours", mustSet(t, f, want, Variables()...), FirstVariable, SecondVariable)
	expectVariables(t, f, want)
	expectNames(t, "already removed", mustSet(t, f, want, Variables()...))
	expectNames(t, "no variables desired", mustSet(t, f, nil, Variables()...), ThirdVariable)
	expectVariables(t, f, map[string]string{})
}

func foreignVariablesStay(t *testing.T, f EnvironmentFixture) {
	f.Give(t, ThirdVariable, "another")
	before := f.All(t)
	mustSet(t, f, map[string]string{FirstVariable: "ours"}, FirstVariable, SecondVariable)
	mustSet(t, f, nil, FirstVariable, SecondVariable)
	if after := f.All(t); !maps.Equal(before, after) || len(after) < 2 {
		t.Errorf("variables were %q, are %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
}

func variableNamesIgnoreCase(t *testing.T, f EnvironmentFixture) {
	lower := strings.ToLower(FirstVariable)
	f.Give(t, lower, "value")
	expectNames(t, "the same value", mustSet(t, f, map[string]string{FirstVariable: "value"}, lower))
	expectNames(t, "another value", mustSet(t, f, map[string]string{FirstVariable: "other"}, lower), FirstVariable)
	expectVariables(t, f, map[string]string{lower: "other"})
	expectNames(t, "removed once", mustSet(t, f, nil, FirstVariable, lower), FirstVariable)
	expectVariables(t, f, map[string]string{})
}

// badVariables are sets of variables that Windows could not store, each with a secret value.
func badVariables() map[string]map[string]string {
	return map[string]map[string]string{
		"no name":        {"": "secret", FirstVariable: "secret"},
		"equals sign":    {FirstVariable + "=A": "secret"},
		"zero in name":   {FirstVariable + "\x00": "secret"},
		"zero in value":  {FirstVariable: "secret\x00" + SecondVariable + "=secret"},
		"name and again": {FirstVariable: "secret", strings.ToLower(FirstVariable): "secret"},
	}
}

func invalidVariablesAreRejected(t *testing.T, f EnvironmentFixture) {
	mustSet(t, f, map[string]string{ThirdVariable: "good"})
	for what, variables := range badVariables() {
		variables[SecondVariable] = "good"
		changed, err := f.Environment.Set(deadline(t), variables, Variables())
		if err == nil || len(changed) > 0 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Set() = %q, %v, want an error without a value", what, changed, err)
		}
	}
	expectVariables(t, f, map[string]string{ThirdVariable: "good"})
}
