package chart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// manifestTemplates returns the manifests as Helm templates: a file for each kind of each part.
func manifestTemplates(parts []part) (map[string][]byte, error) {
	all := substitutions()
	files := map[string]*bytes.Buffer{}
	replaced := make([]bool, len(all))
	for _, p := range parts {
		for _, o := range p.objects {
			when := p.when
			if when == "" {
				when = condition(o)
			}
			text, used, err := manifestTemplate(o.DeepCopy(), when, all)
			if err != nil {
				return nil, err
			}
			for _, n := range used {
				replaced[n] = true
			}
			name := "templates/" + p.name + strings.ToLower(o.GetKind()) + ".yaml"
			if files[name] == nil {
				files[name] = bytes.NewBufferString("# Generated from deploy/ by make chart.\n")
			}
			files[name].WriteString(text)
		}
	}
	if i := slices.Index(replaced, false); i >= 0 {
		return nil, fmt.Errorf("building templates: deploy/ has no %s %s whose %s could be replaced", all[i].kind, all[i].name, strings.Join(all[i].path, "."))
	}
	written := map[string][]byte{}
	for name, text := range files {
		written[name] = text.Bytes()
	}
	return written, nil
}

// manifestTemplate returns an object as a template with a condition, and the numbers of the substitutions in it.
func manifestTemplate(o *unstructured.Unstructured, when string, all []substitution) (string, []int, error) {
	used, err := replace(o, all)
	if err != nil {
		return "", nil, err
	}
	manifest, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", nil, fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	var text strings.Builder
	text.WriteString("---\n")
	if when != "" {
		fmt.Fprintf(&text, "{{- if %s }}\n", when)
	}
	literal := strings.ReplaceAll(string(manifest), "{{", `{{ "{{" }}`) // text of the manifest that looks like an expression
	for line := range strings.Lines(literal) {
		text.WriteString(expand(line, all, used))
	}
	if when != "" {
		text.WriteString("{{- end }}\n")
	}
	return text.String(), used, nil
}

// expand replaces the placeholders in a line with their expressions.
func expand(line string, all []substitution, used []int) string {
	line = strings.ReplaceAll(line, namespacePlaceholder, namespaceExpression)
	for _, n := range used {
		before, after, found := strings.Cut(line, placeholder(n))
		if !found {
			continue
		}
		s, indent := all[n], len(line)-len(strings.TrimLeft(line, " "))
		if s.structured {
			line = fmt.Sprintf("%s{{- toYaml %s | nindent %d }}%s", before, s.expression, indent+2, after)
		} else {
			line = fmt.Sprintf("%s'%s'%s", before, s.expression, after) // text, whatever the expression renders
		}
		if s.when != "" {
			line = fmt.Sprintf("%s{{- if %s }}\n%s%[1]s{{- end }}\n", strings.Repeat(" ", indent), s.when, line)
		}
	}
	return line
}
