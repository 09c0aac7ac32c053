// Package image builds the operator's container image, an OCI image index for the platforms of control plane nodes, without a
// container engine and without a base image. Layers that change least come first: the payload, which all platforms share;
// certificates of public authorities and the user; and the operator.
//
// An image depends only on its Source: the same source gives the same digest.
package image
