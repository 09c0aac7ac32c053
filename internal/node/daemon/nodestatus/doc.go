// Package nodestatus watches the Node of this host and reports the host's state to it: by conditions, events, annotations and metrics. Other
// parts of the daemon provide the content; this package decides how and how often it is written.
package nodestatus
