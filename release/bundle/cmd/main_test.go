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

// TestTwoReleasesArePushed makes a release, and the next one on its catalog.
func TestTwoReleasesArePushed(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	operator := strings.TrimPrefix(server.URL, "http://") + "/team/wmco"
	out := t.TempDir()
	previous := filepath.Join(out, "previous.yaml")
	for _, args := range [][]string{{"--version", "0.1.0"}, {"--version", "0.2.0", "--previous", previous}} {
		o, err := parse(append(args, "--deploy", "../../../deploy", "--image", operator+"@sha256:"+strings.Repeat("a", 64), "--created", "2026-11-23T10:00:00Z",
			"--out", out, "--catalog", "--push", "--plain-http", "--maintainer", "Someone <someone@example.com>"))
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		if err := run(context.Background(), o, &said); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(said.String()) {
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

func TestWithoutAnImageTheBuildSaysWhatToRun(t *testing.T) {
	o, err := parse([]string{"--layout", t.TempDir(), "--version", "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "make image") {
		t.Errorf("the error is %v", err)
	}
}
