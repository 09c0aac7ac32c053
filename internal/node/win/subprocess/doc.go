// Package subprocess runs this program again, in a process of its own, for calls of Windows that may hang: a process can be ended, a call cannot.
package subprocess
