// Package chart builds a Helm chart from deploy/. Its only own manifest is for something that only Helm can do, a check before the release
// is uninstalled; all others are those of deploy/, in which a table of substitutions replaces values with expressions.
//
// With the default values, the chart renders what kustomize builds.
package chart
