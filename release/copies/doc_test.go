// Package copies_test copies the operator's images with tools of users, which write indexes again: the copies must have the digests that
// manifests, chart, bundle and catalog name. It is a separate module because of skopeo's dependencies.
package copies_test
