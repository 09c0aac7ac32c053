// Package nodestatus follows the Node of this host and tells it how the host is: by conditions, events, annotations and metrics. What
// there is to tell comes from other parts of the daemon; this package knows how it is written, and how often.
package nodestatus
