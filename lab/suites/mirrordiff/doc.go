// Package mirrordiff compares the places from which Windows nodes pull images with those of OpenShift's Linux nodes. It generates random clusters,
// and resolves each image with the product (internal/shared/mirrors) and with the libraries of Linux nodes: the one with which OpenShift writes
// registries.conf (openshift/runtime-utils), and the one that reads it (containers/image). Each known difference is a row with its reason; any other
// fails the test. It is a separate module, because nothing else depends on these libraries.
package mirrordiff
