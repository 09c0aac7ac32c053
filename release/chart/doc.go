// Package chart makes a Helm chart of what is in deploy/. It has no manifests of its own but for what only Helm can do, a check before the
// release is uninstalled: the rest are those of deploy/, in which a table of substitutions puts expressions over values.
//
// With the defaults of the values, the chart renders what kustomize builds.
package chart
