// Package olm installs bundles as the Operator Lifecycle Manager (OLM) v0 documents it, on a cluster of the lab: it reads the catalog that a
// Subscription names, the bundle's image, and creates what OLM creates. OLM itself is on no module proxy, so its resolver, its unpack job
// and its catalog server are not tested.
package olm
