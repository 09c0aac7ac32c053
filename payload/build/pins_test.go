package build

import "testing"

func TestVersionIsThatOfTheModuleOfThePackage(t *testing.T) {
	const mod = "module m\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/component-base v0.36.3 // indirect\n\tk8s.io/kube v0.1.0\n\tk8s.io/api v0.37.0\n)\n\nreplace k8s.io/other => ./other\n" +
		"\nreplace (\n\tk8s.io/api v0.37.0 => k8s.io/api v0.36.1\n\tk8s.io/kube => k8s.io/kube v0.2.0\n)\n"
	for pkg, want := range map[string]Pin{
		"k8s.io/kubernetes/cmd/kubelet": {"k8s.io/kubernetes", "v1.36.3"}, "k8s.io/component-base/logs": {"k8s.io/component-base", "v0.36.3"},
		"k8s.io/kube": {"k8s.io/kube", "v0.2.0"}, "k8s.io/api/core/v1": {"k8s.io/api", "v0.36.1"}, "k8s.io/other": {}, "example.com/x": {},
	} {
		if got, err := pinned(mod, pkg); got != want || (err == nil) != (want != Pin{}) {
			t.Errorf("package %s is pinned to %v (%v), want %v", pkg, got, err, want)
		}
	}
}

func TestThirdPartyProgramsArePinned(t *testing.T) {
	for _, c := range Components() {
		pin, err := PinOf("../..", c)
		if err != nil || (pin == Pin{}) != (c.Module == ".") {
			t.Errorf("%s is pinned to %v (%v)", c.FullName(), pin, err)
		}
	}
}
