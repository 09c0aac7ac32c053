package signature

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// BundleType is the media type of a bundle (https://github.com/sigstore/protobuf-specs, sigstore_bundle.proto).
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// statementType is the media type of a statement, which is signed together with the statement (DSSE).
const statementType = "application/vnd.in-toto+json"

// bundle has either the signature of a message, or an envelope with a statement and its signature.
type bundle struct {
	MediaType string            `json:"mediaType"`
	Material  material          `json:"verificationMaterial"`
	Message   *messageSignature `json:"messageSignature,omitempty"`
	Envelope  *envelope         `json:"dsseEnvelope,omitempty"`
}

// material names the public key, which is not in the bundle.
type material struct {
	PublicKey struct {
		Hint string `json:"hint"`
	} `json:"publicKey"`
}

type messageSignature struct {
	Digest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// envelope is that of https://github.com/secure-systems-lab/dsse.
type envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Signature []byte `json:"sig"`
}

func newBundle(key *ecdsa.PrivateKey) (b bundle, err error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return b, err
	}
	b.MediaType = BundleType
	hint := sha256.Sum256(public)
	b.Material.PublicKey.Hint = base64.StdEncoding.EncodeToString(hint[:])
	return b, nil
}

// SignFile returns the bundle with the signature of a file's content.
func SignFile(content []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	b, err := newBundle(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	b.Message = &messageSignature{}
	b.Message.Digest.Algorithm, b.Message.Digest.Digest = "SHA2_256", sum[:]
	if b.Message.Signature, err = Sign(content, key); err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

// Statement is a claim about subjects (https://in-toto.io/Statement/v1).
type Statement struct {
	Subjects []Subject
	// PredicateType is a URI that defines the meaning of the predicate.
	PredicateType string
	Predicate     any
}

// Subject is a file or an image, identified by its SHA-256 in hexadecimal.
type Subject struct{ Name, SHA256 string }

// SignStatement returns the bundle with a signed statement.
func SignStatement(s Statement, key *ecdsa.PrivateKey) ([]byte, error) {
	b, err := newBundle(key)
	if err != nil {
		return nil, err
	}
	payload, err := s.encode()
	if err != nil {
		return nil, err
	}
	// The signature covers the payload and its type (pre-authentication encoding of DSSE).
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(payload), payload)
	signature, err := Sign(message, key)
	if err != nil {
		return nil, err
	}
	b.Envelope = &envelope{Payload: payload, PayloadType: statementType, Signatures: []envelopeSignature{{signature}}}
	return json.Marshal(b)
}

func (s Statement) encode() ([]byte, error) {
	type digest struct {
		SHA256 string `json:"sha256"`
	}
	type subject struct {
		Name   string `json:"name,omitempty"`
		Digest digest `json:"digest"`
	}
	var subjects []subject
	for _, one := range s.Subjects {
		subjects = append(subjects, subject{one.Name, digest{one.SHA256}})
	}
	return json.Marshal(struct {
		Type          string    `json:"_type"`
		Subjects      []subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     any       `json:"predicate"`
	}{"https://in-toto.io/Statement/v1", subjects, s.PredicateType, s.Predicate})
}
