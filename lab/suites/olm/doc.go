// Package olm tests docs/install-olm.md: the Operator Lifecycle Manager itself runs on the lab's Linux node, and installs,
// upgrades and removes the operator from the bundles and catalogs of this repository. Folder programs pins its version.
package olm
