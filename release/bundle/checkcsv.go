package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (b *Bundle) checkTexts() error {
	s := b.CSV.Spec
	var errs []error
	need := func(ok bool, where, format string, args ...any) {
		if !ok {
			errs = append(errs, problem(where, format, args...))
		}
	}
	need(len(s.DisplayName) >= 3 && len(s.DisplayName) <= 50, "spec.displayName", "%q must have 3 to 50 characters", s.DisplayName)
	need(len(s.Description) >= 20, "spec.description", "it must have at least 20 characters")
	need(regexp.MustCompile("^"+versionPattern+"$").MatchString(s.Version), "spec.version", "%q must be a semantic version", s.Version)
	need(regexp.MustCompile("^"+versionPattern+"$").MatchString(s.MinKubeVersion), "spec.minKubeVersion", "%q must be a semantic version", s.MinKubeVersion)
	need(s.Provider.Name != "", "spec.provider.name", "it must not be empty")
	need(len(s.Keywords) > 0, "spec.keywords", "there must be one")
	need(len(s.Maintainers) > 0, "spec.maintainers", "there must be one")
	for i, m := range s.Maintainers {
		_, err := mail.ParseAddress(m.Email)
		need(m.Name != "" && err == nil, "spec.maintainers", "maintainer %d, %q, must have a name and a mail address, not %q", i, m.Name, m.Email)
	}
	need(len(s.Links) > 0, "spec.links", "there must be one")
	for _, l := range s.Links {
		u, err := url.Parse(l.URL)
		need(l.Name != "" && err == nil && u.Scheme == "https" && u.Host != "", "spec.links", "link %q must have a name and an https URL, not %q", l.Name, l.URL)
	}
	need(len(s.Icon) == 1, "spec.icon", "there are %d, want one", len(s.Icon))
	for _, i := range s.Icon {
		types := []string{"image/gif", "image/jpeg", "image/png", "image/svg+xml"}
		need(len(i.Data) > 0 && slices.Contains(types, i.MediaType), "spec.icon", "it must have data of one of the types %s, not %q", strings.Join(types, ", "), i.MediaType)
	}
	return errors.Join(errs...)
}

// capabilities and categories are what catalogs sort by.
func capabilities() []string {
	return []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}
}

func categories() []string {
	return []string{
		"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Database", "Developer Tools", "Development Tools", "Drivers and plugins",
		"Integration & Delivery", "Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking", "Observability", "OpenShift Optional",
		"Security", "Storage", "Streaming & Messaging",
	}
}

func (b *Bundle) checkCatalogAnnotations() error {
	var errs []error
	all := b.CSV.Metadata.Annotations
	for _, key := range []string{"capabilities", "categories", "containerImage", "createdAt", "repository", "support", "description"} {
		if all[key] == "" {
			errs = append(errs, problem("metadata.annotations", "%s is missing", key))
		}
	}
	if !slices.Contains(capabilities(), all["capabilities"]) {
		errs = append(errs, problem("metadata.annotations", "capabilities is %q; it must be one of %s", all["capabilities"], strings.Join(capabilities(), ", ")))
	}
	for c := range strings.SplitSeq(all["categories"], ",") {
		if !slices.Contains(categories(), strings.TrimSpace(c)) {
			errs = append(errs, problem("metadata.annotations", "categories has %q; allowed are %s", c, strings.Join(categories(), ", ")))
		}
	}
	if !strings.ContainsAny(all["containerImage"], "@:") {
		errs = append(errs, problem("metadata.annotations", "containerImage %q has neither tag nor digest", all["containerImage"]))
	}
	if _, err := time.Parse(time.RFC3339, all["createdAt"]); err != nil {
		errs = append(errs, problem("metadata.annotations", "createdAt: %w", err))
	}
	for key := range all {
		for _, known := range []string{"olm.skipRange", "olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces"} {
			if strings.EqualFold(key, known) && key != known {
				errs = append(errs, problem("metadata.annotations", "%s must be written %s", key, known))
			}
		}
		if key == "olm.properties" {
			errs = append(errs, problem("metadata.annotations", "olm.properties belongs into metadata/properties.yaml"))
		}
	}
	return errors.Join(errs...)
}

func (b *Bundle) checkInstallModes() error {
	seen, supported := map[string]bool{}, 0
	for _, m := range b.CSV.Spec.InstallModes {
		if seen[m.Type] {
			return problem("spec.installModes", "%s is there twice", m.Type)
		}
		seen[m.Type] = true
		if m.Supported {
			supported++
		}
	}
	if supported == 0 {
		return problem("spec.installModes", "none is supported")
	}
	return nil
}

// checkImages requires digests, and that each image is mirrored for disconnected clusters; and requests of resources.
func (b *Bundle) checkImages() error {
	var errs []error
	related := map[string]bool{}
	withDigest := regexp.MustCompile(`^[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`)
	for _, i := range b.CSV.Spec.RelatedImages {
		related[i.Image] = true
		if i.Name == "" || !withDigest.MatchString(i.Image) {
			errs = append(errs, problem("spec.relatedImages", "image %q, %q, must have a name and a digest", i.Name, i.Image))
		}
	}
	if len(b.CSV.Spec.Install.Spec.Deployments) == 0 {
		errs = append(errs, problem("spec.install.spec.deployments", "there is none"))
	}
	for _, d := range b.CSV.Spec.Install.Spec.Deployments {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			where := fmt.Sprintf("Deployment %s, container %s", d.Name, c.Name)
			if !related[c.Image] {
				errs = append(errs, problem(where, "spec.relatedImages does not list its image %s", c.Image))
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				errs = append(errs, problem(where, "it has no requests of cpu and memory"))
			}
		}
	}
	return errors.Join(errs...)
}

// checkRights refuses what the validators do: creating kinds, which is OLM's work, and changing OpenShift's security context constraints.
func (b *Bundle) checkRights() error {
	var errs []error
	for _, p := range slices.Concat(b.CSV.Spec.Install.Spec.ClusterPermissions, b.CSV.Spec.Install.Spec.Permissions) {
		for _, r := range p.Rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					isConstraint := resource == "securitycontextconstraints" && !slices.Contains([]string{"use", "get", "list", "watch"}, verb)
					if resource == "customresourcedefinitions" && (verb == "create" || verb == "*") || isConstraint {
						errs = append(errs, problem("permissions of "+p.ServiceAccountName, "%s %s is not allowed", verb, resource))
					}
				}
			}
		}
	}
	return errors.Join(errs...)
}

// checkExamples requires an example of each owned kind and no others.
func (b *Bundle) checkExamples() error {
	const where = "metadata.annotations, alm-examples"
	var all []map[string]any
	if err := json.Unmarshal([]byte(b.CSV.Metadata.Annotations["alm-examples"]), &all); err != nil {
		return problem(where, "%w", err)
	}
	var errs []error
	seen := map[string]bool{}
	for _, content := range all {
		o := unstructured.Unstructured{Object: content}
		seen[o.GroupVersionKind().String()] = true
	}
	for _, owned := range b.CSV.Spec.Definitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		gvk := group + "/" + owned.Version + ", Kind=" + owned.Kind
		if !seen[gvk] {
			errs = append(errs, problem(where, "there is none of %s", gvk))
		}
		delete(seen, gvk)
	}
	for gvk := range seen {
		errs = append(errs, problem(where, "there is one of %s, which is not owned", gvk))
	}
	return errors.Join(errs...)
}

// checkMetadata checks metadata/.
func (b *Bundle) checkMetadata() error {
	var errs []error
	const prefix = "operators.operatorframework.io.bundle."
	if b.Annotations[prefix+"package.v1"] != Package || b.Annotations[prefix+"mediatype.v1"] != "registry+v1" {
		errs = append(errs, problem("metadata/annotations.yaml", "it is not of package %s and registry+v1", Package))
	}
	// https://olm.operatorframework.io/docs/best-practices/channel-naming
	for channel := range strings.SplitSeq(b.Annotations[prefix+"channels.v1"], ",") {
		if !regexp.MustCompile(`^(candidate|fast|stable)(-[a-z0-9.-]+)?$`).MatchString(channel) {
			errs = append(errs, problem("metadata/annotations.yaml", "channel %q must begin with candidate, fast or stable", channel))
		}
	}
	if b.CSV.Spec.MinKubeVersion != "" && b.Annotations["com.redhat.openshift.versions"] == "" {
		errs = append(errs, problem("metadata/annotations.yaml", "com.redhat.openshift.versions is missing beside minKubeVersion"))
	}
	for _, p := range b.Properties {
		if p.Type == "" || !json.Valid(p.Value) || strings.HasPrefix(p.Type, "olm.package") {
			errs = append(errs, problem("metadata/properties.yaml", "property %q is not valid here", p.Type))
		}
	}
	return errors.Join(errs...)
}
