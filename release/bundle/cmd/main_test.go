package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/windows-machine-config/wmco/release/catalog"
)

// TestConsecutiveReleasesArePushed builds a release, and the next one on top of its catalog.
func TestConsecutiveReleasesArePushed(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	operator := strings.TrimPrefix(server.URL, "http://") + "/team/wmco"
	out := t.TempDir()
	previous := filepath.Join(out, "previous.yaml")
	for _, args := range [][]string{{"--version", "0.1.0"}, {"--version", "0.2.0", "--previous", previous}} {
		o := parse(append(args, "--deploy", "../../../deploy", "--image", operator+"@sha256:"+strings.Repeat("a", 64), "--created", "2026-11-23T10:00:00Z",
			"--out", out, "--catalog", "--push", "--plain-http", "--maintainer", "Someone <someone@example.com>"))
		var output bytes.Buffer
		if err := run(context.Background(), o, &output); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(output.String()) {
			ref, err := name.NewDigest(strings.Fields(line)[0], name.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			index, err := remote.Index(ref)
			if err == nil {
				err = validate.Index(index)
			}
			if err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
		if byVersion, byChannel := digestOf(t, operator+"-catalog:"+args[1]), digestOf(t, operator+"-catalog:stable"); byVersion != byChannel {
			t.Errorf("the catalog of version %s is %s, but that of the channel is %s", args[1], byVersion, byChannel)
		}
		if err := os.Rename(filepath.Join(out, "catalog", "catalog.yaml"), previous); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(previous)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := catalog.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Channels[0].Entries; len(e) != 2 || e[1].Replaces != e[0].Name || !strings.HasPrefix(c.Bundles[1].Image, operator+"-bundle@sha256:") {
		t.Errorf("entries are %+v, the second image is %s", e, c.Bundles[1].Image)
	}
}

func digestOf(t *testing.T, ref string) string {
	t.Helper()
	reference, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(reference)
	if err != nil {
		t.Fatal(err)
	}
	return found.Digest.String()
}

// TestChannelTagKeepsVersions builds the second release without the catalog of the first.
func TestChannelTagKeepsVersions(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	operator := strings.TrimPrefix(server.URL, "http://") + "/team/wmco"
	release := func(version string) error {
		o := parse([]string{"--version", version, "--deploy", "../../../deploy", "--image", operator + "@sha256:" + strings.Repeat("a", 64),
			"--created", "2026-11-23T10:00:00Z", "--out", t.TempDir(), "--catalog", "--push", "--plain-http"})
		return run(t.Context(), o, io.Discard)
	}
	if err := release("0.1.0"); err != nil {
		t.Fatal(err)
	}
	before := digestOf(t, operator+"-catalog:stable")
	if err := release("0.1.0"); err != nil {
		t.Errorf("pushing the same release again: %v", err)
	}
	if err := release("0.2.0"); err == nil || !strings.Contains(err.Error(), "windows-machine-config-operator.v0.1.0") || !strings.Contains(err.Error(), "PREVIOUS") {
		t.Errorf("a catalog without the first release: %v", err)
	}
	if after := digestOf(t, operator+"-catalog:stable"); after != before {
		t.Errorf("the channel tag was moved from %s to %s", before, after)
	}
}

func TestMissingImageErrorSuggestsCommand(t *testing.T) {
	o := parse([]string{"--layout", t.TempDir(), "--version", "0.1.0"})
	if err := run(context.Background(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "make image") {
		t.Errorf("the error is %v", err)
	}
}
