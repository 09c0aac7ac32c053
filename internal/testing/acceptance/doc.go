// Package acceptance tests assumptions about Windows that could not be tested during development. Lines lists them: docs/limitations.md
// is generated from it, and a report of Run has an answer to each line. Join tests everything together: it makes the machine a node of a control plane that
// runs on the same machine.
//
// A run restores the state of the machine. It records each change in a journal first, so that a later run can undo the changes of an interrupted one.
package acceptance
