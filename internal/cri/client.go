// Package cri makes the few calls of the Container Runtime Interface that WICD needs. A call of gRPC is a request of HTTP/2 with a length
// before each message: that is written here, since gRPC itself would add a quarter to the size of WICD.
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

// maxAnswer bounds an answer, in bytes. That to ImageStatus names the tags and digests of an image.
const maxAnswer = 1 << 20

// Client calls a runtime. Transport speaks HTTP/2 to it, whatever the host of a URL.
type Client struct{ Transport http.RoundTripper }

// Image is an image that the runtime has, with all its layers.
type Image struct {
	// ID is the digest of its configuration.
	ID string
	// Pinned keeps the kubelet from removing it when the disk is full.
	Pinned bool
}

// Login are the credentials for one registry, as a pull secret has them.
type Login struct {
	Username, Password string
	IdentityToken      string
	// Server is the URL of the only registry that gets them.
	Server string
}

// Error is what the runtime answered instead of doing what it was asked for.
type Error struct {
	// Code is one of gRPC's; see package google.golang.org/grpc/codes.
	Code    int
	Message string
}

// Codes of gRPC. The runtime answers Unavailable as long as it starts, and Canceled or Unavailable when it ends.
const (
	Canceled    = 1
	NotFound    = 5
	Unavailable = 14
)

// Error makes Error an error.
func (e *Error) Error() string { return fmt.Sprintf("%s (gRPC code %d)", e.Message, e.Code) }

// Version asks the runtime for its version, as the kubelet does first. An answer means that it works.
func (c Client) Version(ctx context.Context) error {
	_, err := c.call(ctx, "RuntimeService/Version", nil)
	return err
}

// NetworkReady tells whether the runtime has a network for pods: whether it has read the configuration of one.
func (c Client) NetworkReady(ctx context.Context) (bool, error) {
	answer, err := c.call(ctx, "RuntimeService/Status", nil)
	if err != nil {
		return false, err
	}
	return readNetworkReady(answer)
}

// ImageStatus returns the image of a name; found is false where the runtime has none.
func (c Client) ImageStatus(ctx context.Context, name string) (i Image, found bool, err error) {
	answer, err := c.call(ctx, "ImageService/ImageStatus", requestOf(name, Login{}))
	if err != nil {
		return Image{}, false, err
	}
	return readImage(answer)
}

// PullImage pulls and unpacks an image, and returns its ID. It is a call of as long as that takes.
func (c Client) PullImage(ctx context.Context, name string, l Login) (id string, err error) {
	answer, err := c.call(ctx, "ImageService/PullImage", requestOf(name, l))
	if err != nil {
		return "", err
	}
	return readPulled(answer)
}

// prefixBytes are before each message of gRPC: whether it is compressed, and its length.
const prefixBytes = 5

func (c Client) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1."+method, bytes.NewReader(append(prefix, message...)))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	answer, err := c.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if err := outcomeOf(answer); err != nil {
		return nil, err
	}
	if len(body) < prefixBytes || len(body) > maxAnswer || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-prefixBytes) {
		return nil, errors.New("the answer is not one message of gRPC")
	}
	return body[prefixBytes:], nil
}

// outcomeOf is what the end of an answer says. A failure without a message says it in the beginning.
func outcomeOf(answer *http.Response) error {
	outcome := answer.Trailer
	if answer.Header.Get("Grpc-Status") != "" {
		outcome = answer.Header
	}
	status := outcome.Get("Grpc-Status")
	code, err := strconv.Atoi(status)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is HTTP status %d, gRPC status %q", answer.StatusCode, status)
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
