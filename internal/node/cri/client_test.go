package cri

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runtime responds like gRPC servers: the message, then the status in the trailers; for a failure, the status is in the headers.
type runtime struct {
	t *testing.T
	// calls records method and message of each call.
	calls []string
	// status and text are those of a failure; answer is the message of a success, after its prefix.
	status, text string
	answer       []byte
	prefix       []byte // replaces the correct prefix
}

func (r *runtime) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil || len(body) < prefixBytes || int(binary.BigEndian.Uint32(body[1:])) != len(body)-prefixBytes {
		r.t.Errorf("the request is %q, %v", body, err)
	}
	if request.ProtoMajor != 2 || request.Header.Get("Content-Type") != "application/grpc" || request.Header.Get("Te") != "trailers" {
		r.t.Errorf("the request is %s with %v", request.Proto, request.Header)
	}
	r.calls = append(r.calls, fmt.Sprintf("%s %x", request.URL.Path, body[prefixBytes:]))
	w.Header().Set("Content-Type", "application/grpc")
	if r.status != "" {
		w.Header().Set("Grpc-Status", r.status)
		w.Header().Set("Grpc-Message", r.text)
		return
	}
	w.Header().Set("Trailer", "Grpc-Status")
	prefix := r.prefix
	if prefix == nil {
		prefix = binary.BigEndian.AppendUint32([]byte{0}, uint32(len(r.answer)))
	}
	_, _ = w.Write(append(prefix, r.answer...))
	w.Header().Set("Grpc-Status", "0")
}

func newClient(t *testing.T, r *runtime) Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: r}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	var d net.Dialer
	transport := &http.Transport{Protocols: protocols}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return Client{Transport: transport}
}

// imageStatusResponse returns an ImageStatusResponse as containerd 2.4 sends it: the image with ID, tags, a size, a user and pinned, and a map of info.
func imageStatusResponse(pinned bool) []byte {
	var image []byte
	image = appendBytes(image, imageID, "sha256:1")
	image = appendBytes(image, 2, "mcr.test/pause:1")
	image = binary.AppendUvarint(append(image, 4<<3|wireVarint), 1<<40)
	image = appendBytes(image, 5, []byte{8, 1})
	if pinned {
		image = append(image, imagePinned<<3|wireVarint, 1)
	}
	return appendBytes(appendBytes(nil, statusImage, image), 2, "\n\x01a\x12\x01b")
}

func TestCallsAreThoseOfTheInterface(t *testing.T) {
	r := &runtime{t: t}
	c := newClient(t, r)
	if err := c.Version(t.Context()); err != nil {
		t.Error(err)
	}
	if image, found, err := c.ImageStatus(t.Context(), "a/b:1"); err != nil || found || image != (Image{}) {
		t.Errorf("a missing image: %v %v %v", image, found, err)
	}
	for _, pinned := range []bool{false, true} {
		r.answer = imageStatusResponse(pinned)
		if image, found, err := c.ImageStatus(t.Context(), "a/b:1"); err != nil || !found || image != (Image{ID: "sha256:1", Pinned: pinned}) {
			t.Errorf("an image: %v %v %v", image, found, err)
		}
	}
	r.answer = appendBytes(nil, pulledRef, "sha256:1")
	if id, err := c.PullImage(t.Context(), "a/b:1", Login{}); err != nil || id != "sha256:1" {
		t.Errorf("the pull: %q %v", id, err)
	}
	if _, err := c.PullImage(t.Context(), "a", Login{Username: "u", Password: "p", Server: "s"}); err != nil {
		t.Error(err)
	}
	want := []string{ // field 1 with an ImageSpec, whose field 1 is the name; field 2 with the credentials
		"/runtime.v1.RuntimeService/Version ",
		"/runtime.v1.ImageService/ImageStatus 0a070a05612f623a31", "/runtime.v1.ImageService/ImageStatus 0a070a05612f623a31",
		"/runtime.v1.ImageService/ImageStatus 0a070a05612f623a31", "/runtime.v1.ImageService/PullImage 0a070a05612f623a31",
		"/runtime.v1.ImageService/PullImage 0a030a0161" + "1209" + "0a0175" + "120170" + "220173",
	}
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRuntimeErrorIsDecoded(t *testing.T) {
	r := &runtime{t: t, status: "5", text: `failed to pull %22a%22%3A not found 100%25`}
	_, err := newClient(t, r).PullImage(t.Context(), "a", Login{})
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != NotFound || refused.Message != `failed to pull "a": not found 100%` {
		t.Errorf("the pull: %v", err)
	}
}

func TestMalformedAnswerIsAnError(t *testing.T) {
	for name, r := range map[string]*runtime{
		"no status":         {status: "x"},
		"compressed":        {prefix: []byte{1, 0, 0, 0, 1}, answer: []byte("x")},
		"too short":         {prefix: []byte{0, 0}},
		"wrong length":      {prefix: []byte{0, 0, 0, 0, 9}, answer: []byte("x")},
		"too long":          {answer: bytes.Repeat([]byte{0x0a, 0}, maxResponse)},
		"no message":        {answer: []byte{0xff}},
		"a length past end": {answer: []byte{0x0a, 0x7f, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			_, _, err := newClient(t, r).ImageStatus(t.Context(), "a")
			if err == nil || errors.As(err, new(*Error)) {
				t.Errorf("ImageStatus() = %v", err)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(imageStatusResponse(true))
	f.Add(appendBytes(nil, pulledRef, "sha256:1"))
	f.Add(appendBytes(nil, runtimeStatus, condition("NetworkReady", true)))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, message []byte) {
		image, found, err := readImage(message)
		if err != nil && (found || image != Image{}) {
			t.Errorf("an error and %v", image)
		}
		if isReady, err := readNetworkReady(message); isReady && (err != nil || !strings.Contains(string(message), networkReady)) {
			t.Errorf("the network is ready, and the error is %v", err)
		}
		if id, err := readPulled(message); err == nil && !strings.Contains(string(message), id) {
			t.Errorf("the ID %q is not in the message", id)
		}
	})
}

// condition returns a RuntimeCondition as containerd 2.4 sends it, in a RuntimeStatus.
func condition(name string, ok bool) []byte {
	c := appendBytes(nil, conditionType, name)
	if ok {
		c = append(c, isTrue<<3|wireVarint, 1)
	}
	return appendBytes(nil, runtimeConditions, appendBytes(c, 3, "reason"))
}

func TestNetworkReady(t *testing.T) {
	runtimeStatusWith := func(parts ...[]byte) []byte { return appendBytes(nil, runtimeStatus, bytes.Join(parts, nil)) }
	for name, test := range map[string]struct {
		answer []byte
		want   bool
	}{
		"both":           {runtimeStatusWith(condition("RuntimeReady", true), condition("NetworkReady", true)), true},
		"no network":     {runtimeStatusWith(condition("RuntimeReady", true), condition("NetworkReady", false)), false},
		"no conditions":  {runtimeStatusWith(), false},
		"the other only": {runtimeStatusWith(condition("RuntimeReady", true)), false},
		"with more":      {append(runtimeStatusWith(condition("NetworkReady", true)), appendBytes(nil, 2, "\n\x01a\x12\x01b")...), true},
	} {
		r := &runtime{t: t, answer: test.answer}
		if got, err := newClient(t, r).NetworkReady(t.Context()); err != nil || got != test.want || r.calls[0] != "/runtime.v1.RuntimeService/Status " {
			t.Errorf("%s: %v, %v, calls %q", name, got, err, r.calls)
		}
	}
	for _, broken := range []string{"\x0a\xff", "\x0a\x02\x0a\xff"} {
		if _, err := newClient(t, &runtime{t: t, answer: []byte(broken)}).NetworkReady(t.Context()); err == nil {
			t.Errorf("%q causes no error", broken)
		}
	}
}
