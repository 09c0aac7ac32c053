package clusterversion

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// FuzzVersionOf: any response results in a short version or an error.
func FuzzVersionOf(f *testing.F) {
	for _, answer := range []string{`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "34+"}`, `{"gitVersion": "v1.36.3-eks-1"}`, `{`, `null`, ``} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := versionOf(answer)
		if (got == "") != (err != nil) || len(got) > len("v1023.1023.1023") {
			t.Fatalf("the version is %q, error %v", got, err)
		}
		if _, invalid := version.ParseGeneric(got); err == nil && invalid != nil {
			t.Errorf("%q is not a version: %v", got, invalid)
		}
	})
}
