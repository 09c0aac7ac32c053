// Package configure brings the host to the requested state in steps: for a join, a pull of new settings, a leave, and the repair of drift. Each
// step compares the host with what is wanted, and may be interrupted and repeated.
package configure
