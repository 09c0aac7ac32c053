// Package nodesettings follows the settings that the operator publishes for nodes of a version, and lets the host become what they
// say. Only what the operator signed is followed.
package nodesettings
