// Package archtest has no code of its own: its tests enforce the rules of the architecture, of documents and of workflows, for the whole repository.
package archtest
