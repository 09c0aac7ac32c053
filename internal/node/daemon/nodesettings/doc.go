// Package nodesettings watches the settings that the operator publishes for nodes of a version, and applies them to the host. Only settings that
// the operator signed are applied.
package nodesettings
