package desired

import (
	"slices"
	"strings"
	"testing"
)

// graph declares services from lines such as "kubelet: containerd network".
func graph(lines ...string) []Service {
	var all []Service
	for _, line := range lines {
		name, on, _ := strings.Cut(line, ":")
		all = append(all, Service{Name: name, DependsOn: strings.Fields(on)})
	}
	return all
}

func TestServicesFollowDependencies(t *testing.T) {
	for name, test := range map[string]struct{ declared, want []string }{
		"none":              {nil, nil},
		"as declared":       {[]string{"containerd", "kubelet: containerd", "wicd"}, []string{"containerd", "kubelet", "wicd"}},
		"turned around":     {[]string{"c: b", "b: a", "a"}, []string{"a", "b", "c"}},
		"as little as need": {[]string{"x", "c: a", "y", "a", "z"}, []string{"x", "y", "a", "c", "z"}},
		"a diamond":         {[]string{"d: b c", "c: a", "b: a", "a"}, []string{"a", "c", "b", "d"}},
	} {
		got, err := Order(graph(test.declared...))
		if err != nil || !slices.Equal(NamesOf(got), test.want) {
			t.Errorf("%s: Order() = %q, %v, want %q", name, NamesOf(got), err, test.want)
		}
	}
}

// The original operator stopped after the first dependency that it examined, so that it missed cycles behind it.
func TestServicesWithCyclesAreNamed(t *testing.T) {
	for want, services := range map[string][]Service{
		"services a cannot":          graph("a: a"),
		"services a, b cannot":       graph("good", "a: good b", "b: good a"),
		"services x, a, b, c cannot": graph("x: a", "a: b", "b: c", "c: a"),
		"services c cannot":          graph("b", "c: b y"),
		"services d cannot":          graph("kubelet", "d: Kubelet"),
	} {
		if _, err := Order(services); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Order(%q) = %v, want %q", NamesOf(services), err, want)
		}
	}
}
