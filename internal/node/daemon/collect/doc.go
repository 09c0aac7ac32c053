// Package collect writes an archive of the node's state for support when the Node requests it, and removes it after a while. It collects only
// what is listed here, and masks secrets in logs.
package collect
