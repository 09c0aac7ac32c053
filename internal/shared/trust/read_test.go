package trust

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadReversesEncode(t *testing.T) {
	want := Collect(now(), Bundle{"bundle", authority("a").pem(t) + authority("b").pem(t)}).Certificates
	text := Encode(want)
	got, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again := Encode(got); again != text {
		t.Errorf("written again: %s", again)
	}
	if got, err := Read(""); err != nil || got != nil {
		t.Errorf("an empty text returned %v, %v", got, err)
	}
}

func TestReadAcceptsAnyPEMFile(t *testing.T) {
	old := part{name: "old", from: year(-2), to: year(-1)}
	text := keyPEM(t) + old.pem(t) + "-----BEGIN X-----\n-----END X-----\n" + authority("ca").pem(t) + old.pem(t) + "-----BEGIN PRIVATE KEY-----\n"
	got, err := Read(text)
	if err != nil || !slices.Equal(names(got), []string{"old", "ca", "old"}) {
		t.Fatalf("%v, %v", names(got), err)
	}
	if !got[0].NotAfter.Equal(old.to) || !got[0].NotBefore.Equal(old.from) || len(got[0].SHA256) != 64 {
		t.Errorf("%+v", got[0])
	}
}

func TestReadNeverReturnsPartialList(t *testing.T) {
	a, b := authority("a").pem(t), authority("b").pem(t)
	for name, text := range map[string]string{
		"cut":              a + b[:len(b)/2],
		"cut END":          a + b[:len(b)-3],
		"altered":          a + strings.Replace(b, "M", "!", 1),
		"other":            a + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"damaged label":    a + strings.Replace(b, "CERTIFICATE", "CERTIFICATF", 1),
		"ends like a key":  a + strings.Replace(b, "END CERTIFICATE", "END PRIVATE KEY", 1),
		"lost its BEGIN":   a + strings.Replace(b, "-----BEGIN CERTIFICATE-----", "", 1),
		"damaged in front": strings.Replace(a, "-----B", "----B", 1) + b,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(text)
			if err == nil || got != nil || !regexp.MustCompile(`line \d+: `).MatchString(err.Error()) {
				t.Errorf("%v, %v", names(got), err)
			}
		})
	}
}
