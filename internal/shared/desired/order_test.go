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
		t.Run(name, func(t *testing.T) {
			got, err := Order(graph(test.declared...))
			if err != nil || !slices.Equal(NamesOf(got), test.want) {
				t.Errorf("arrange() = %q, %v, want %q", NamesOf(got), err, test.want)
			}
		})
	}
}

// The original stopped after the first dependency that it examined, so that it missed cycles behind it.
func TestEverythingThatIsWrongWithTheGraphIsNamed(t *testing.T) {
	probed := graph("a", "b")
	probed[0].Ready, probed[1].Ready = "http://10.0.0.1/healthz", "npipe://other/pipe/x"
	for name, test := range map[string]struct {
		services []Service
		want     []string
	}{
		"itself":                    {graph("a: a"), []string{"a needs a"}},
		"behind a good dependency":  {graph("good", "a: good b", "b: good a"), []string{"a needs b needs a"}},
		"two circles, one branch":   {graph("a: b", "b: a", "c: d", "d: c", "e: a"), []string{"a needs b needs a", "c needs d needs c"}},
		"two through one":           {graph("a: b c", "b: a", "c: a"), []string{"a needs b needs a", "a needs c needs a"}},
		"a long one, entered late":  {graph("x: a", "a: b", "b: c", "c: a"), []string{"a needs b needs c needs a"}},
		"two that are not declared": {graph("a: x", "b: a y"), []string{`"a" depends on "x"`, `"b" depends on "y"`}},
		"other case":                {graph("kubelet", "Kubelet"), []string{`"kubelet" and "Kubelet"`}},
		"dependency in other case":  {graph("kubelet", "b: Kubelet"), []string{`"b" depends on "Kubelet"`}},
		"on who keeps it":           {graph("a: windows-instance-config-daemon", "windows-instance-config-daemon"), []string{`"a" depends on "windows-instance-config-daemon"`}},
		"probes that leave":         {probed, []string{"10.0.0.1", "npipe://other"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Order(test.services)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(test.want) {
				t.Errorf("%d problems are named, want %d:\n%v", len(lines), len(test.want), err)
			}
		})
	}
}

func FuzzArrange(f *testing.F) {
	f.Add("a: b\nb: c\nc")
	f.Add("a: a\nb: a b\nc: d")
	f.Fuzz(func(t *testing.T, text string) {
		declared := graph(strings.Split(text, "\n")...)
		got, err := Order(declared)
		if err != nil {
			return
		}
		if len(got) != len(declared) {
			t.Fatalf("%d services became %d", len(declared), len(got))
		}
		for i, s := range got {
			if dependsOnAny(s, got[i:]) {
				t.Fatalf("%q comes before what it depends on", s.Name)
			}
		}
	})
}
