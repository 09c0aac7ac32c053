// Package image builds the operator's container image, an OCI image index for the platforms of control plane nodes, without a
// container engine and without a base image. Layers have what seldom changes first: the payload, the same for all platforms;
// certificates of public authorities and the user; and the operator.
//
// An image depends on nothing but its Source: built again from the same one, it has the same digest.
package image
