// Package collect writes an archive of the node's state for support when the Node asks for it, and removes it after a while. It takes only what
// is listed here, and masks secrets in logs.
package collect
