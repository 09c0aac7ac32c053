//go:build linux

package e2e

import (
	"net/http"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
)

// fromMirrors pulls images by the names of the source, which is stopped at first.
func (s imagesTest) fromMirrors() {
	const copies = "copies/"
	digest, tag := s.push("digest", copies, s.first, s.second), s.push("tag", copies, s.first, s.second)
	digestLater, tagLater := s.push("digest-later", copies, s.first, s.second), s.push("tag-later", copies, s.first, s.second)
	s.source.Stop()
	s.trustRegistries()
	s.mirror(v1alpha1.AllowContactingSource, v1alpha1.PullByDigestAndTag)
	s.expectPulled(digest.byDigest(s.source), digest)
	s.expectServed(s.first, digest, digest.Digest().String())
	s.expectPulled(tag.byTag(s.source), tag)
	s.expectServed(s.first, tag, "1")
	s.expectNoRequest(s.second, digest)
	s.expectNoRequest(s.second, tag)

	s.expectRemoved(digest.byDigest(s.source), digest)

	s.first.Stop()
	s.expectPulled(digestLater.byDigest(s.source), digestLater)
	s.expectServed(s.second, digestLater, digestLater.Digest().String())
	s.expectPulled(tagLater.byTag(s.source), tagLater)
	s.expectServed(s.second, tagLater, "1")

	for _, r := range []*lab.Registry{s.first, s.source} {
		must(s.t, r.Start(s.t.Context()))
	}
	s.fromTheSource(copies)
}

// fromTheSource checks that the running source gets requests only if the policy permits them.
func (s imagesTest) fromTheSource(copies string) {
	mirrored, missing := s.push("mirrored", copies, s.second), s.push("missing", "", s.source)
	s.expectPulled(mirrored.byTag(s.source), mirrored)
	s.expectResponse(s.first, mirrored, http.MethodHead, "manifests/1", http.StatusNotFound)
	s.expectServed(s.second, mirrored, "1")
	s.expectNoRequest(s.source, mirrored)
	s.expectPulled(missing.byTag(s.source), missing)
	s.expectResponse(s.second, missing, http.MethodHead, "manifests/1", http.StatusNotFound)
	s.expectServed(s.source, missing, "1")

	// As on Linux nodes, an image by tag comes entirely from the source, and one by digest from the mirror.
	byTag, byDigest := s.push("by-tag", copies, s.first), s.push("by-digest", copies, s.first)
	s.push("by-tag", "", s.source)
	s.push("by-digest", "", s.source)
	s.mirror(v1alpha1.AllowContactingSource, v1alpha1.PullByDigest)
	s.expectPulled(byTag.byTag(s.source), byTag)
	s.expectServed(s.source, byTag, "1")
	s.expectNoRequest(s.first, byTag)
	s.expectPulled(byDigest.byDigest(s.source), byDigest)
	s.expectServed(s.first, byDigest, byDigest.Digest().String())
	s.expectNoRequest(s.source, byDigest)
	s.fromTheDocuments()

	kept, forbidden := s.push("kept", copies, s.second), s.push("forbidden", "", s.source)
	s.mirror(v1alpha1.NeverContactSource, v1alpha1.PullByDigestAndTag)
	s.expectPulled(kept.byTag(s.source), kept)
	s.expectServed(s.second, kept, "1")
	for _, name := range []string{forbidden.byTag(s.source), forbidden.byDigest(s.source)} {
		s.expectNotPulled(name, "spec.registries.mirrors[0].mirrorSourcePolicy")
	}
	s.expectResponse(s.first, forbidden, http.MethodHead, "manifests/1", http.StatusNotFound)
	s.expectResponse(s.second, forbidden, http.MethodHead, "manifests/1", http.StatusNotFound)
	s.expectNoRequest(s.source, kept)
	s.expectNoRequest(s.source, forbidden)
}

// fromTheDocuments configures different mirrors for repositories of one registry, with other paths than those of the sources, as in the documents'
// example of an ImageDigestMirrorSet.
func (s imagesTest) fromTheDocuments() {
	s.t.Helper()
	minimal, other, plain := s.push("minimal", "example/", s.second), s.push("other", "other/", s.first), s.push("plain", "", s.source)
	s.configure(func(c *v1alpha1.WindowsConfigSpec) {
		mirrors := func(source string, policy v1alpha1.MirrorSourcePolicy, locations ...string) v1alpha1.RegistryMirrors {
			m := v1alpha1.RegistryMirrors{Source: s.source.Host + source, MirrorSourcePolicy: policy, PullBy: v1alpha1.PullByDigest}
			for _, l := range locations {
				m.Mirrors = append(m.Mirrors, v1alpha1.RegistryMirror{Location: l})
			}
			return m
		}
		c.Registries.Mirrors = []v1alpha1.RegistryMirrors{
			mirrors("/ubi9/ubi-minimal", v1alpha1.AllowContactingSource, s.first.Host+"/example/team/minimal", s.second.Host+"/example/team/minimal"),
			mirrors("/redhat", v1alpha1.NeverContactSource, s.first.Host+"/other"),
		}
	})
	s.expectSettings()
	s.expectPulled(s.source.Host+"/ubi9/ubi-minimal@"+minimal.Digest().String(), minimal)
	s.expectResponse(s.first, minimal, http.MethodHead, "manifests/"+minimal.Digest().String(), http.StatusNotFound)
	s.expectServed(s.second, minimal, minimal.Digest().String())
	s.expectPulled(s.source.Host+"/redhat/team/other@"+other.Digest().String(), other)
	s.expectServed(s.first, other, other.Digest().String())
	s.expectNoRequest(s.source, other)
	s.expectPulled(plain.byTag(s.source), plain)
	s.expectServed(s.source, plain, "1")
}

// mirror configures the two mirrors of the source.
func (s imagesTest) mirror(policy v1alpha1.MirrorSourcePolicy, by v1alpha1.PullBy) {
	s.t.Helper()
	s.configure(func(c *v1alpha1.WindowsConfigSpec) {
		c.Registries.Mirrors = []v1alpha1.RegistryMirrors{{
			Source: s.source.Host, MirrorSourcePolicy: policy, PullBy: by,
			Mirrors: []v1alpha1.RegistryMirror{{Location: s.first.Host + "/copies"}, {Location: s.second.Host + "/copies"}},
		}}
	})
	s.expectSettings()
}
