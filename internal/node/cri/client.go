// Package cri implements the few calls of the Container Runtime Interface that WICD needs. A gRPC call is an HTTP/2 request with a length before
// each message. This package implements that itself, since gRPC would increase WICD's size by a quarter.
package cri

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// maxResponse limits a response, in bytes. The response to ImageStatus contains the tags and digests of an image.
const maxResponse = 1 << 20

// Client calls a runtime. Transport connects to it over HTTP/2 and ignores the host of a URL.
type Client struct{ Transport http.RoundTripper }

// Image is an image that the runtime has with all layers.
type Image struct {
	// ID is the digest of its configuration.
	ID string
	// Pinned prevents the kubelet from removing the image when the disk is full.
	Pinned bool
}

// Login holds the credentials for one registry, as in a pull secret.
type Login struct {
	Username, Password string
	IdentityToken      string
	// Server is the URL of the only registry to which they may be sent.
	Server string
}

// Error is an error that the runtime returned.
type Error struct {
	// Code is a gRPC code; see package google.golang.org/grpc/codes.
	Code    int
	Message string
}

// gRPC codes. The runtime returns Unavailable while it starts, and Canceled or Unavailable when it stops.
const (
	Canceled    = 1
	NotFound    = 5
	Unavailable = 14
)

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (gRPC code %d)", e.Message, e.Code) }

// Version requests the runtime's version, as the kubelet does first. A response means that the runtime works.
func (c Client) Version(ctx context.Context) error {
	_, err := c.call(ctx, "RuntimeService/Version", nil)
	return err
}

// NetworkReady reports whether the runtime has a pod network, that is, has read a network's configuration.
func (c Client) NetworkReady(ctx context.Context) (bool, error) {
	response, err := c.call(ctx, "RuntimeService/Status", nil)
	if err != nil {
		return false, err
	}
	return readNetworkReady(response)
}

// ImageStatus returns the image with a name; found is false if the runtime does not have it.
func (c Client) ImageStatus(ctx context.Context, name string) (i Image, found bool, err error) {
	response, err := c.call(ctx, "ImageService/ImageStatus", requestOf(name, Login{}))
	if err != nil {
		return Image{}, false, err
	}
	return readImage(response)
}

// PullImage pulls and unpacks an image and returns its ID. The call lasts until the image is unpacked.
func (c Client) PullImage(ctx context.Context, name string, l Login) (id string, err error) {
	response, err := c.call(ctx, "ImageService/PullImage", requestOf(name, l))
	if err != nil {
		return "", err
	}
	return readPulled(response)
}

// prefixBytes is the length of the prefix of a gRPC message: a compression flag and the message's length.
const prefixBytes = 5

func (c Client) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1."+method, bytes.NewReader(append(prefix, message...)))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return nil, err
	}
	if err := outcomeOf(response); err != nil {
		return nil, err
	}
	if len(body) < prefixBytes || len(body) > maxResponse || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-prefixBytes) {
		return nil, errors.New("the response is not a single gRPC message")
	}
	return body[prefixBytes:], nil
}

// outcomeOf returns the error at the end of a response. A failure without a message has it in the headers.
func outcomeOf(response *http.Response) error {
	outcome := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		outcome = response.Header
	}
	status := outcome.Get("Grpc-Status")
	code, err := strconv.Atoi(status)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("the response has HTTP status %d and gRPC status %q", response.StatusCode, status)
	}
	if code == 0 {
		return nil
	}
	text := outcome.Get("Grpc-Message")
	if plain, err := url.PathUnescape(text); err == nil { // percent-encoded (PROTOCOL-HTTP2.md of gRPC)
		text = plain
	}
	return &Error{Code: code, Message: text}
}
