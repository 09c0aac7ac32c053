// Package scm has Windows' service control manager (SCM): connections, services opened for reading, their processes, a watch for
// changes, and how one of our programs runs as a service.
//
// The settings of our services, and how they are started, stopped and deleted, are in internal/win.
package scm
