package podrules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// The checks whether a pod is for Windows, and which nodes it selects, exist twice: for kubectl windows lint, and as expressions for admission
// policies. A test in lab/suites/deploytest compares both with random pods.

// Node labels that only describe the platform. Kubelets also set the older names, which older manifests select.
const (
	olderOS   = "beta.kubernetes.io/os"
	olderArch = "beta.kubernetes.io/arch"
)

func osLabels() []string { return []string{corev1.LabelOSStable, olderOS} }

func systemLabels() []string {
	return append(osLabels(), corev1.LabelArchStable, olderArch)
}

// windowsImage is a regular expression that matches only images for Windows.
const windowsImage = `(?i)^mcr[.]microsoft[.]com/(windows|dotnet/framework)([/:@]|$)|` +
	`^[^@]*:([^/@]*[^a-z0-9/@])?(ltsc20[0-9][0-9]|nanoserver|windowsservercore)([^a-z0-9/@][^/@]*)?(@.*)?$`

var windowsImages = regexp.MustCompile(windowsImage)

// ForWindows reports whether a pod is for Windows nodes: by an explicit field, or else by its images.
func ForWindows(spec map[string]any) bool {
	system, _ := spec["os"].(map[string]any)
	selector, _ := spec["nodeSelector"].(map[string]any)
	class, _ := spec["runtimeClassName"].(string)
	isWindows, isAnother := system["name"] == "windows", system["name"] != nil
	for _, label := range osLabels() {
		isWindows, isAnother = isWindows || selector[label] == "windows", isAnother || selector[label] != nil
	}
	terms := requiredTerms(spec)
	isWindows = isWindows || strings.HasPrefix(class, "windows") || selector[corev1.LabelWindowsBuild] != nil ||
		len(terms) > 0 && !slices.ContainsFunc(terms, func(t any) bool { return !hasRequirement(t, onlyWindows) })
	isAnother = isAnother || slices.ContainsFunc(terms, func(t any) bool { return hasRequirement(t, aboutOS) })
	return isWindows || !isAnother && hasImage(spec, windowsImages)
}

// requiredTerms returns the required terms of the node affinity, one of which must match.
func requiredTerms(spec map[string]any) []any {
	var object any = spec
	for _, name := range []string{"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"} {
		fields, _ := object.(map[string]any)
		object = fields[name]
	}
	terms, _ := object.([]any)
	return terms
}

func hasRequirement(term any, fits func(requirement map[string]any) bool) bool {
	fields, _ := term.(map[string]any)
	all, _ := fields["matchExpressions"].([]any)
	return slices.ContainsFunc(all, func(r any) bool {
		requirement, _ := r.(map[string]any)
		return fits(requirement)
	})
}

func aboutOS(requirement map[string]any) bool {
	key, _ := requirement["key"].(string)
	return slices.Contains(osLabels(), key)
}

func onlyWindows(requirement map[string]any) bool {
	if requirement["key"] == corev1.LabelWindowsBuild {
		return requirement["operator"] == "In" || requirement["operator"] == "Exists"
	}
	values, _ := requirement["values"].([]any)
	return aboutOS(requirement) && requirement["operator"] == "In" && !slices.ContainsFunc(values, func(v any) bool { return v != "windows" })
}

func hasImage(spec map[string]any, pattern *regexp.Regexp) bool {
	for _, kind := range []string{"containers", "initContainers"} {
		all, _ := spec[kind].([]any)
		for _, item := range all {
			container, _ := item.(map[string]any)
			if image, _ := container["image"].(string); pattern.MatchString(image) {
				return true
			}
		}
	}
	return false
}

// terms is the expression for requiredTerms.
const terms = ".?affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.orValue([])"

// forWindows is ForWindows as an expression about a pod's spec.
func forWindows(spec string) string {
	labels := list(osLabels())
	return strings.NewReplacer("SPEC", spec, "TERMS", spec+terms, "LABELS", labels, "BUILD", corev1.LabelWindowsBuild, "IMAGE", windowsImage).Replace(
		"SPEC.?os.name.orValue('') == 'windows' || LABELS.exists(l, SPEC.?nodeSelector[?l].orValue('') == 'windows') || " +
			"SPEC.?nodeSelector[?'BUILD'].hasValue() || SPEC.?runtimeClassName.orValue('').startsWith('windows') || " +
			"TERMS.size() > 0 && TERMS.all(t, t.?matchExpressions.orValue([]).exists(e, e.key == 'BUILD' && e.operator in ['In', 'Exists'] || " +
			"e.key in LABELS && e.operator == 'In' && e.?values.orValue([]).all(v, v == 'windows'))) || " +
			"!SPEC.?os.name.hasValue() && !LABELS.exists(l, SPEC.?nodeSelector[?l].hasValue()) && " +
			"!TERMS.exists(t, t.?matchExpressions.orValue([]).exists(e, e.key in LABELS)) && " +
			"(SPEC.?containers.orValue([]) + SPEC.?initContainers.orValue([])).exists(c, c.?image.orValue('').matches('IMAGE'))")
}

func selectsAnother(selector map[string]string) bool {
	return slices.ContainsFunc(osLabels(), func(label string) bool {
		value, selects := selector[label]
		return selects && value != "windows"
	})
}

// selectsAnotherExpression is selectsAnother as an expression.
func selectsAnotherExpression(spec string) string {
	return fmt.Sprintf("%s.exists(l, %s.?nodeSelector[?l].orValue('windows') != 'windows')", list(osLabels()), spec)
}

// selectsNodes reports whether a pod selects its nodes by more than their architecture.
func selectsNodes(pod *corev1.PodSpec) bool {
	for label, value := range pod.NodeSelector {
		if slices.Contains(osLabels(), label) && value == "windows" || !slices.Contains(systemLabels(), label) {
			return true
		}
	}
	return pod.Affinity != nil && pod.Affinity.NodeAffinity != nil && pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil &&
		len(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) > 0
}

// selectsNodesExpression is selectsNodes as an expression.
func selectsNodesExpression(spec string) string {
	return fmt.Sprintf("%[1]s.?nodeSelector.orValue({}).exists(l, l in %[2]s && %[1]s.nodeSelector[l] == 'windows' || !(l in %[3]s)) || %[1]s%[4]s.size() > 0",
		spec, list(osLabels()), list(systemLabels()), terms)
}

// toleratesTaint returns an expression that is true for pods that tolerate the taint of Windows nodes with one of the values.
func toleratesTaint(spec string, values ...string) string {
	return spec + ".?tolerations.orValue([]).exists(t, (t.?key.orValue('') == '" + api.TaintKey + "' || !t.?key.hasValue() && t.?operator.orValue('') == 'Exists') && " +
		"t.?effect.orValue('') in ['', 'NoSchedule'] && (t.?operator.orValue('') == 'Exists' || t.?value.orValue('') in " + list(values) + "))"
}

// tagPattern returns a regular expression for images whose tag names a generation of Windows, such as ltsc2022, as a separate word: as in
// windowsservercore-ltsc2022 and 10.0.20348.1.
func tagPattern(generation string) string {
	var words []string
	for _, r := range windowsbuild.Releases() {
		if r.Tag == generation {
			words = append(words, strconv.Itoa(int(r.Build)), r.Tag)
		}
	}
	if generation == "ltsc2019" {
		words = append(words, "1809") // tag of older images for Windows Server 2019
	}
	slices.Sort(words)
	return `(?i)^[^@]*:([^/@]*[^a-z0-9/@])?(` + strings.Join(words, "|") + `)([^a-z0-9/@][^/@]*)?(@.*)?$`
}

// isOf reports whether the tag of an image names a generation of Windows.
func isOf(image, generation string) bool {
	return regexp.MustCompile(tagPattern(generation)).MatchString(image)
}

// hasGeneration returns an expression that is true if a container in a list has an image whose tag names a generation.
func hasGeneration(containers, generation string) string {
	return fmt.Sprintf(`%s.exists(c, c.?image.orValue('').matches('%s'))`, containers, tagPattern(generation))
}
