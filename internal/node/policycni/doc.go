// Package policycni is the network plugin wicd-cni, the last of a pod's plugins while WICD enforces network policies. It lets the containers
// of a pod start only when WICD says that the rules of the pod's endpoint are in force. It sets no rules itself.
//
// It follows the CNI specification. Only ADD needs WICD: a pod can always be removed.
package policycni
