// Package policypipe implements the protocol by which the network plugin of a pod asks WICD, before the pod's containers start, whether the pod's
// network policies are in force.
//
// A connection carries one request and one response, each a line of JSON of at most 4,096 bytes. Anything else, including no response, means that
// the rules are not in force. The package knows no named pipes: both sides get their connections.
package policypipe
