// Package kubeapi is a small client of the Kubernetes API server for programs on hosts: requests, watches, copies of all objects of a kind, and
// certificates. Objects are JSON of the caller's types. client-go would be most of these programs and of their memory.
package kubeapi
