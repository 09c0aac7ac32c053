// Package wmco is the root of the Windows Machine Config Operator. It has no code of its own: its test holds the
// rules of the architecture; start reading at README.md and internal/join.
package wmco
