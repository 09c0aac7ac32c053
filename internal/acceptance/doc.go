// Package acceptance tries on a Windows machine what could not be tried where this product is developed. Lines is the list
// of it: the document docs/limitations.md is written from it, and a report of Run answers each line. Join tries the whole: it makes the
// machine a node of a control plane on itself.
//
// A machine is left as it was. Each change is written to a journal before it is made, so that a later run can put back what
// one that was cut left behind.
package acceptance
