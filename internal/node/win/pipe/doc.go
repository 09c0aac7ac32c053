// Package pipe opens and creates named pipes of Windows.
//
// It is separate from internal/node/win because the network plugin needs only this package, and should not contain code that only WICD needs.
package pipe
