// Package sandboximage keeps the sandbox image, from which containerd starts every pod, on the host: it is pulled before the node can become Ready,
// pulled again when it is lost, and replaced by another wanted one once that has been pulled. Failures are reported to the Node.
package sandboximage
