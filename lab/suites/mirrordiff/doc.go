// Package mirrordiff compares the locations from which Windows nodes pull images with those of OpenShift's Linux nodes. It
// generates random clusters, and resolves each image with the product (internal/shared/mirrors) and with the libraries of Linux
// nodes: openshift/runtime-utils, which writes registries.conf, and containers/image, which reads it. Known differences are
// listed with their reasons; any other difference fails the test. The package is a separate module because nothing else depends
// on these libraries.
package mirrordiff
