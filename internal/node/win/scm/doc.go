// Package scm accesses Windows' service control manager (SCM): connections, services opened for reading, their processes, a watch for changes, and
// running one of the product's programs as a service.
//
// The settings of the product's services, and how they are started, stopped and deleted, are in internal/node/win.
package scm
