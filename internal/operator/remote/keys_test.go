package remote

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/crypto/ssh"
)

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func openSSH(key any) string { return string(pem.EncodeToMemory(must(ssh.MarshalPrivateKey(key, "")))) }

func pkcs8(key any) string { return encodePEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))) }

func TestPrivateKeyFormats(t *testing.T) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	ec := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	big := must(rsa.GenerateKey(rand.Reader, minRSABits))
	for name, test := range map[string]struct{ text, want string }{
		"Ed25519 OpenSSH":          {openSSH(ed), ssh.KeyAlgoED25519},
		"Ed25519 PKCS#8":           {pkcs8(ed), ssh.KeyAlgoED25519},
		"ECDSA OpenSSH":            {openSSH(ec), ssh.KeyAlgoECDSA384},
		"ECDSA SEC 1":              {encodePEM("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))), ssh.KeyAlgoECDSA384},
		"ECDSA from openssl":       {encodePEM("EC PARAMETERS", []byte{6, 5}) + encodePEM("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))), ssh.KeyAlgoECDSA384},
		"RSA OpenSSH":              {openSSH(big), ssh.KeyAlgoRSA},
		"RSA PKCS#1":               {encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big)), ssh.KeyAlgoRSA},
		"RSA PKCS#8":               {pkcs8(big), ssh.KeyAlgoRSA},
		"with the public key":      {FormatHostKey(must(ssh.NewPublicKey(ed.Public()))) + "\n" + openSSH(ed), ssh.KeyAlgoED25519},
		"Windows line ends":        {strings.ReplaceAll(openSSH(ed), "\n", "\r\n"), ssh.KeyAlgoED25519},
		"no line break at the end": {strings.TrimSuffix(openSSH(ed), "\n"), ssh.KeyAlgoED25519}, // https://github.com/appleboy/ssh-action/issues/2
		"blank lines around":       {"\n\n" + openSSH(ed) + "\n\n", ssh.KeyAlgoED25519},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParsePrivateKey([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.PublicKey().Type(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// unusableKeys maps inputs that a user may confuse with a private key to what the error reports as found.
func unusableKeys() map[string]string {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	public := must(ssh.NewPublicKey(ed.Public()))
	//nolint:staticcheck // this is what old keys look like
	oldEncrypted := string(pem.EncodeToMemory(must(x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY",
		x509.MarshalPKCS1PrivateKey(small), []byte("secret"), x509.PEMCipherAES256))))
	return map[string]string{
		"":                   "found nothing",
		" \n\t\n":            "found nothing",
		"hunter2":            "found no PEM",
		encryptedKey(public): "encrypted with a passphrase",
		oldEncrypted:         "encrypted with a passphrase",
		encodePEM("ENCRYPTED PRIVATE KEY", []byte{1}):                          "encrypted with a passphrase",
		FormatHostKey(public) + " me@home\n":                                   "found a public key",
		encodePEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(ed.Public()))):  "found a public key",
		"---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----": "found a public key",
		encodePEM("CERTIFICATE", []byte{1}):                                    "found a certificate",
		"\ufeff" + openSSH(ed):                                                 "found a byte order mark", // https://github.com/MicrosoftDocs/azure-docs/issues/31460
		utf16Of("\ufeff" + openSSH(ed)):                                        "found text in UTF-16",
		utf16Of(openSSH(ed)):                                                   "found text in UTF-16",
		"\xfe\xff\x00-":                                                        "found text in UTF-16",
		encodePEM("MESSAGE", []byte{1}):                                        "found PEM without a private key",
		"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n":               "found a PuTTY key",
		base64.StdEncoding.EncodeToString([]byte(openSSH(ed))):                 "encoded once more in base64",       // https://github.com/jenkinsci/kubernetes-operator/issues/79
		strings.ReplaceAll(openSSH(ed), "\n", " "):                             "lines are cut, joined or indented", // https://github.com/koderover/zadig/issues/2398
		encodePEM("OPENSSH PRIVATE KEY", []byte("openssh-key-v1\x00damaged")):  "damaged or of an unknown kind",
		encodePEM("QUANTUM PRIVATE KEY", []byte("x")):                          "damaged or of an unknown kind",
		openSSH(small): "an RSA key of 1024 bits",
		dsaKey():       "found a DSA key",
		pkcs8(must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))): "an ECDSA key of 224 bits",
		pkcs8(must(ecdh.X25519().GenerateKey(rand.Reader))):          "of a kind that SSH does not use",
	}
}

// encryptedKey returns a key in the format of encrypted OpenSSH keys (PROTOCOL.key in OpenSSH's sources). Encrypting a real one takes seconds.
func encryptedKey(public ssh.PublicKey) string {
	return encodePEM("OPENSSH PRIVATE KEY", append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
		Cipher, KDF, KDFOptions string
		Keys                    uint32
		Public, Private         []byte
	}{"aes256-ctr", "bcrypt", "salt and rounds", 1, public.Marshal(), []byte("encrypted")})...))
}

// dsaKey returns a key in the format of DSA keys; its numbers are not a valid key.
func dsaKey() string {
	n := big.NewInt
	return encodePEM("DSA PRIVATE KEY", must(asn1.Marshal(struct {
		Version            int
		P, Q, G, Pub, Priv *big.Int
	}{0, n(23), n(11), n(4), n(18), n(7)})))
}

// utf16Of encodes a text as PowerShell 5.1 redirects it into a file, with a byte order mark.
func utf16Of(text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

func TestUnusablePrivateKeysAreDescribed(t *testing.T) {
	for text, wantErr := range unusableKeys() {
		t.Run(wantErr, func(t *testing.T) {
			_, err := ParsePrivateKey([]byte(text))
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range []string{wantErr, "ssh-keygen -t ed25519 -N '' -f key"} {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not contain %q", err, s)
				}
			}
		})
	}
}

func FuzzParsePrivateKey(f *testing.F) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	f.Add([]byte(openSSH(ed)))
	f.Add([]byte(pkcs8(ed)))
	known := keyError("").Error()
	for text, found := range unusableKeys() {
		f.Add([]byte(text))
		known += " " + found
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParsePrivateKey(text)
		if err == nil {
			if _, err := s.Sign(rand.Reader, []byte("x")); err != nil {
				t.Fatalf("the key does not sign: %v", err)
			}
			return
		}
		for word := range bytes.FieldsSeq(text) {
			if len(word) >= 16 && !strings.Contains(known, string(word)) && strings.Contains(err.Error(), string(word)) {
				t.Fatalf("the error contains a part of the key: %v", err)
			}
		}
	})
}

func TestHostKeysRoundTrip(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		key := newKey(t, kind).PublicKey()
		for _, text := range []string{FormatHostKey(key), "  " + FormatHostKey(key) + " win-1@example\r\n"} {
			got, err := ParseHostKey(text)
			if err != nil {
				t.Fatal(err)
			}
			if FormatHostKey(got) != FormatHostKey(key) {
				t.Errorf("got %s, want %s", FormatHostKey(got), FormatHostKey(key))
			}
		}
	}
}

func TestUnusableHostKeysAreDescribed(t *testing.T) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	key := FormatHostKey(must(ssh.NewPublicKey(ed.Public())))
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	for text, wantErr := range map[string]string{
		"":                                 "found no public key",
		"ssh-ed25519":                      "found no public key",
		"ssh-ed25519 AAAA":                 "found no public key",
		strings.TrimSuffix(key, key[60:]):  "found no public key",
		"SHA256:uNiVztksCsDhcc0u9e8BrqGiN": "found a fingerprint",
		"\ufeff" + key:                     "found a byte order mark",
		utf16Of("\ufeff" + key):            "found text in UTF-16",
		utf16Of(key):                       "found text in UTF-16",
		openSSH(ed):                        "found a private key",
		"restrict " + key:                  "found other words before the key",
		key + "\n" + key:                   "found more than one line",
		FormatHostKey(must(ssh.NewPublicKey(&small.PublicKey))): "found an RSA key of 1024 bits",
		certificate(t): "found a key of type ssh-ed25519-cert-v01@openssh.com",
	} {
		_, err := ParseHostKey(text)
		if err == nil || !strings.Contains(err.Error(), wantErr) || !strings.Contains(err.Error(), "ssh_host_ed25519_key.pub") {
			t.Errorf("%.40q: got %v, want an error containing %q", text, err, wantErr)
		}
	}
}

func certificate(t *testing.T) string {
	c := &ssh.Certificate{Key: newKey(t, "ed25519").PublicKey(), CertType: ssh.HostCert}
	if err := c.SignCert(rand.Reader, newKey(t, "ed25519")); err != nil {
		t.Fatal(err)
	}
	return FormatHostKey(c)
}

func FuzzParseHostKey(f *testing.F) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	f.Add(FormatHostKey(must(ssh.NewPublicKey(ed.Public()))) + " comment")
	f.Add("ssh-rsa AAAA")
	f.Add("SHA256:abc")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseHostKey(text)
		if err != nil {
			return
		}
		again, err := ParseHostKey(FormatHostKey(key))
		if err != nil || FormatHostKey(again) != FormatHostKey(key) {
			t.Fatalf("%q does not survive being written and read: %v", text, err)
		}
	})
}
