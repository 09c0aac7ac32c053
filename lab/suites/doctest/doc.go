// Package doctest runs the commands of documents, and applies their objects, as readers do: in the order of the stories in internal/testing/documents,
// with real programs, each story in a cluster of its own.
package doctest
