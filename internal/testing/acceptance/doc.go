// Package acceptance tries on a Windows machine what could not be tried where this product is developed. Lines lists these items: docs/limitations.md
// is generated from it, and a report of Run answers each line. Join tries everything together: it makes the machine a node of a control plane that
// runs on the same machine.
//
// A run leaves the machine as it was. Each change is written to a journal first, so that a later run can undo the changes of an interrupted one.
package acceptance
