// Package supervisor keeps the services of the node as they are declared, and running: it repairs, restarts with growing pauses, and
// tells the Node of services that crash or do not answer.
package supervisor
