// Package wmco is the root of the Windows Machine Config Operator. It has no code of its own: its tests enforce the
// rules of the architecture. Start reading at README.md and internal/join.
package wmco
