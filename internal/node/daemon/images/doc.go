// Package images keeps images on the host that pods need. Sandbox keeps the sandbox image, from which containerd starts every pod: it is pulled
// before the node can become Ready, pulled again when it is lost, and replaced by another wanted one once that has been pulled. Failures are
// reported to the Node.
package images
