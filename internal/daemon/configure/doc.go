// Package configure makes the host what a request says, step by step: a join, a pull of new settings, a leave, and the correction of
// what drifted since. Each step looks at what is there, and may be cut and repeated.
package configure
