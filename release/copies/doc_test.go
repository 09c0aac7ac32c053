// Package copies_test copies our images with the tools of users, which write indexes again: the copies must have the digests that manifests,
// chart, bundle and catalog name. It is a module of its own because of what skopeo is made of.
package copies_test
