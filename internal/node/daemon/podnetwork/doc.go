// Package podnetwork maintains the pod network: it compares the expected state with that of Windows' Host Network Service and repairs what was lost.
package podnetwork
