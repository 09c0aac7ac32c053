// Package mirrordiff compares from where Windows nodes pull images with from where Linux nodes of OpenShift do. It plays clusters by chance,
// and asks for each image the product (internal/mirrors), and the libraries of Linux nodes: that with which OpenShift writes registries.conf
// (openshift/runtime-utils), and that which reads it (containers/image). Each difference that is known is a row with its reason; any other one
// fails the test. It is a module of its own, because nothing else depends on these libraries.
package mirrordiff
