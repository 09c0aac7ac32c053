package cri

import (
	"encoding/binary"
	"errors"
)

// Field numbers of package runtime.v1 (k8s.io/cri-api, pkg/apis/runtime/v1/api.proto).
const (
	requestImage = 1 // of ImageStatusRequest and PullImageRequest: an ImageSpec
	requestAuth  = 2 // of PullImageRequest: an AuthConfig
	specImage    = 1 // of ImageSpec: the image's name

	authUsername, authPassword, authServer, authIdentityToken = 1, 2, 4, 5 // of AuthConfig

	runtimeStatus         = 1 // of StatusResponse: a RuntimeStatus
	runtimeConditions     = 1 // of RuntimeStatus: repeated RuntimeCondition
	conditionType, isTrue = 1, 2
	networkReady          = "NetworkReady" // constants.go

	statusImage                = 1 // of ImageStatusResponse: an Image, missing if there is none
	imageID, imagePinned       = 1, 8
	pulledRef                  = 1 // of PullImageResponse
	wireVarint, wire64         = 0, 1
	wireBytes, wire32          = 2, 5
	maxField             int32 = 1<<29 - 1
)

// errMessage means that bytes are not a Protocol Buffers message.
var errMessage = errors.New("the response is not a Protocol Buffers message")

// appendBytes adds a field with bytes, a text or another message to a message. It omits an empty field, as Protocol Buffers do.
func appendBytes[T string | []byte](message []byte, field uint64, value T) []byte {
	if len(value) == 0 {
		return message
	}
	message = binary.AppendUvarint(message, field<<3|wireBytes)
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}

// field is one field of a message: value if it is numeric, otherwise bytes.
type field struct {
	number int32
	value  uint64
	bytes  []byte
}

// fields parses a message. It includes unknown fields, which later versions may send.
func fields(message []byte) (all []field, err error) {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 || tag>>3 > uint64(maxField) {
			return nil, errMessage
		}
		message = message[n:]
		f := field{number: int32(tag >> 3)}
		switch tag & 7 {
		case wireVarint:
			if f.value, n = binary.Uvarint(message); n <= 0 {
				return nil, errMessage
			}
		case wire64:
			n = 8
		case wire32:
			n = 4
		case wireBytes:
			length, m := binary.Uvarint(message)
			if m <= 0 || length > uint64(len(message)-m) {
				return nil, errMessage
			}
			n = m + int(length)
			f.bytes = message[m:n]
		default:
			return nil, errMessage
		}
		if n > len(message) {
			return nil, errMessage
		}
		all, message = append(all, f), message[n:]
	}
	return all, nil
}

// readImage parses an ImageStatusResponse.
func readImage(message []byte) (i Image, found bool, err error) {
	outer, err := fields(message)
	if err != nil {
		return Image{}, false, err
	}
	for _, f := range outer {
		if f.number != statusImage {
			continue
		}
		found = true
		inner, err := fields(f.bytes)
		if err != nil {
			return Image{}, false, err
		}
		for _, f := range inner {
			switch f.number {
			case imageID:
				i.ID = string(f.bytes)
			case imagePinned:
				i.Pinned = f.value != 0
			}
		}
	}
	return i, found, nil
}

// readNetworkReady parses a StatusResponse.
func readNetworkReady(message []byte) (bool, error) {
	outer, err := fields(message)
	if err != nil {
		return false, err
	}
	for _, f := range outer {
		if f.number != runtimeStatus {
			continue
		}
		conditions, err := fields(f.bytes)
		if err != nil {
			return false, err
		}
		for _, c := range conditions {
			ok, name, err := readCondition(c)
			if err != nil || ok && name == networkReady {
				return ok, err
			}
		}
	}
	return false, nil
}

func readCondition(c field) (ok bool, name string, err error) {
	if c.number != runtimeConditions {
		return false, "", nil
	}
	inner, err := fields(c.bytes)
	for _, f := range inner {
		switch f.number {
		case conditionType:
			name = string(f.bytes)
		case isTrue:
			ok = f.value != 0
		}
	}
	return ok, name, err
}

// readPulled parses a PullImageResponse.
func readPulled(message []byte) (id string, err error) {
	all, err := fields(message)
	for _, f := range all {
		if f.number == pulledRef {
			id = string(f.bytes)
		}
	}
	return id, err
}

// requestOf returns an ImageStatusRequest, or a PullImageRequest with credentials.
func requestOf(name string, l Login) []byte {
	request := appendBytes(nil, requestImage, appendBytes(nil, specImage, name))
	var auth []byte
	auth = appendBytes(auth, authUsername, l.Username)
	auth = appendBytes(auth, authPassword, l.Password)
	if auth = appendBytes(auth, authIdentityToken, l.IdentityToken); len(auth) > 0 {
		auth = appendBytes(auth, authServer, l.Server)
	}
	return appendBytes(request, requestAuth, auth)
}
