package main

import (
	"go/ast"
	"regexp"
	"strconv"
	"strings"
)

// markers are the parts of a comment that controller-gen reads, as text.
type markers struct {
	optional  bool
	byDefault string
	bounds    []string // enumerations, numbers, lengths and patterns
	rules     []string // messages of CEL rules
}

// markersOf reads the markers of a comment.
func markersOf(doc *ast.CommentGroup) (m markers) {
	if doc == nil {
		return m
	}
	values := map[string]string{}
	message := regexp.MustCompile(`XValidation:rule=.*,message="(.*)"$`)
	for _, line := range doc.List {
		line, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(line.Text, "//")), "+")
		if !ok {
			continue
		}
		if found := message.FindStringSubmatch(line); found != nil {
			m.rules = append(m.rules, cell(found[1]))
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		values[strings.TrimPrefix(name, "kubebuilder:validation:")] = value
	}
	_, m.optional = values["optional"]
	if d, ok := values["kubebuilder:default"]; ok {
		m.byDefault = "`" + strings.Trim(d, `"`) + "`"
	}
	m.bounds = boundsOf(values)
	return m
}

// boundsOf describes the markers that limit a value.
func boundsOf(values map[string]string) (bounds []string) {
	add := func(text string) {
		if text != "" {
			bounds = append(bounds, text)
		}
	}
	if enum, ok := values["Enum"]; ok {
		add("`" + strings.Join(strings.Split(enum, ";"), "`, `") + "`")
	}
	add(between(values["Minimum"], values["Maximum"], ""))
	add(between(values["MinLength"], values["MaxLength"], " characters"))
	add(between(values["MinItems"], values["MaxItems"], " items"))
	add(between("", values["MaxProperties"], " entries"))
	if each := between("", values["items:MaxLength"], " characters"); each != "" {
		add("each " + each)
	}
	if pattern, ok := values["Pattern"]; ok {
		if unquoted, err := strconv.Unquote(pattern); err == nil {
			pattern = unquoted
		}
		add("pattern `" + cell(pattern) + "`")
	}
	return bounds
}

// between describes the allowed numbers; an empty bound means no limit.
func between(least, most, unit string) string {
	switch {
	case least == "" && most == "":
		return ""
	case least == "":
		return "at most " + most + unit
	case most == "":
		return "at least " + least + unit
	}
	return least + " to " + most + unit
}
