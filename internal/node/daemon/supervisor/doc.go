// Package supervisor keeps the node's services running and as declared: it repairs them, restarts them with back-off, and reports services that
// crash or do not answer to the Node.
package supervisor
