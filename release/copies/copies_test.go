package copies_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/windows-machine-config/wmco/release/image"
)

func newRegistry(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestCopiesKeepDigests mirrors images from registry to registry, as described in docs/disconnected.md.
func TestCopiesKeepDigests(t *testing.T) {
	built := newRelease(t)
	eachTool(t, func(t *testing.T, tool tool) {
		from, to := newRegistry(t), newRegistry(t)
		for suffix, index := range built.images {
			imageName := repository + suffix + ":" + version
			if _, err := image.Push(t.Context(), from+"/"+imageName, true, index); err != nil {
				t.Fatal(err)
			}
			if err := tool.copy(t.Context(), "docker://"+from+"/"+imageName, "docker://"+to+"/"+imageName); err != nil {
				t.Errorf("%s: copying %s: %v", tool.name, imageName, err)
				continue
			}
			hasDigests(t, tool, to+"/"+repository+suffix, index)
		}
	})
}

// TestDocumentedCommandsPushReleaseImages runs the commands of RELEASE.md with the files of a release.
func TestDocumentedCommandsPushReleaseImages(t *testing.T) {
	built := newRelease(t)
	dir := built.write(t)
	text, err := os.ReadFile("../../RELEASE.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`skopeo copy --all (\\S+) (docker://<repository>\\S*)`").FindAllStringSubmatch(string(text), -1)
	if len(commands) != len(built.images) {
		t.Fatalf("RELEASE.md has commands %q, want one for each of %d images", commands, len(built.images))
	}
	eachTool(t, func(t *testing.T, tool tool) {
		to := newRegistry(t) + "/" + repository
		fill := strings.NewReplacer("<version>", version, "<repository>", to, "oci-archive:", "oci-archive:"+dir+"/", "oci:", "oci:"+dir+"/")
		for _, c := range commands {
			if err := tool.copy(t.Context(), fill.Replace(c[1]), fill.Replace(c[2])); err != nil {
				t.Errorf("%s: %s: %v", tool.name, c[0], err)
			}
		}
		for suffix, index := range built.images {
			hasDigests(t, tool, to+suffix, index)
		}
	})
}

// hasDigests compares a copy with the original index and with the image of each platform in it.
func hasDigests(t *testing.T, tool tool, repository string, index v1.ImageIndex) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	reference := func(digest v1.Hash) name.Digest {
		parsed, err := name.NewDigest(repository+"@"+digest.String(), name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	copied, err := remote.Index(reference(want))
	if err == nil {
		err = validate.Index(copied)
	}
	if err != nil {
		t.Errorf("%s: the copy %s has no index %s: %v", tool.name, repository, want, err)
		return
	}
	equal := 0
	for _, d := range manifest.Manifests {
		if _, err := remote.Head(reference(d.Digest)); err != nil {
			t.Errorf("%s: the copy %s has no image for %s: %v", tool.name, repository, d.Platform, err)
			continue
		}
		equal++
	}
	if equal == 0 {
		t.Errorf("%s: %s has no images", tool.name, repository)
	}
	t.Logf("%s: %s: digests equal %d of %d", tool.name, repository, equal, len(manifest.Manifests))
}

// unpack unpacks an archive into its own folder, as tar does.
func unpack(t *testing.T, archive string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		to := filepath.Join(filepath.Dir(archive), filepath.FromSlash(header.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, fs.FileMode(0o644))); err != nil {
			t.Fatal(err)
		}
	}
}
