// Package e2e tests the whole system: the operator as users install it, a real control plane, and hosts that are real Windows programs on Wine, or
// simulated where a test needs many hosts or a cut at every byte.
package e2e
