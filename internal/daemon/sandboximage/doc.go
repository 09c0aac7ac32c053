// Package sandboximage keeps the sandbox image on the host, from which containerd starts every pod: it is pulled before the node can become
// Ready, pulled again when it was lost, and replaced when another one is wanted, once that is there. What keeps it away is told to the Node.
package sandboximage
