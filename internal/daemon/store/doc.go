// Package store takes the content of versions onto the host: the operator sends what is missing, and each content is kept under its
// hash.
package store
