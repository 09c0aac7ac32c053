// Package doctest runs the commands and applies the objects in documents like their readers: in the order of the stories in
// internal/testing/documents, with real programs, and each story in its own cluster.
package doctest
