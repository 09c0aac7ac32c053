package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
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
	need(len(s.Keywords) > 0, "spec.keywords", "there must be one")
	need(len(s.Maintainers) > 0, "spec.maintainers", "there must be one")
	need(len(s.Links) > 0, "spec.links", "there must be one")
	for _, l := range s.Links {
		u, err := url.Parse(l.URL)
		need(err == nil && u.Scheme == "https" && u.Host != "", "spec.links", "link %q must have an https URL, not %q", l.Name, l.URL)
	}
	return errors.Join(errs...)
}

// checkCatalogAnnotations checks the annotations that catalogs display and sort by.
func (b *Bundle) checkCatalogAnnotations() error {
	var errs []error
	all := b.CSV.Annotations
	for _, key := range []string{"capabilities", "categories", "containerImage", "createdAt", "repository", "support", "description"} {
		if all[key] == "" {
			errs = append(errs, problem("metadata.annotations", "%s is missing", key))
		}
	}
	if !strings.ContainsAny(all["containerImage"], "@:") {
		errs = append(errs, problem("metadata.annotations", "containerImage %q has neither tag nor digest", all["containerImage"]))
	}
	if _, err := time.Parse(time.RFC3339, all["createdAt"]); err != nil {
		errs = append(errs, problem("metadata.annotations", "createdAt: %w", err))
	}
	return errors.Join(errs...)
}

// checkImages requires digests, mirrored images for disconnected clusters, and resource requests.
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
	for _, d := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
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

// checkRights rejects permissions to create CustomResourceDefinitions, which OLM does, and to change OpenShift's
// security context constraints.
func (b *Bundle) checkRights() error {
	var errs []error
	install := b.CSV.Spec.InstallStrategy.StrategySpec
	for _, p := range slices.Concat(install.ClusterPermissions, install.Permissions) {
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

// checkMetadata checks metadata/.
func (b *Bundle) checkMetadata() error {
	var errs []error
	const prefix = "operators.operatorframework.io.bundle."
	if b.Annotations[prefix+"package.v1"] != Package || b.Annotations[prefix+"mediatype.v1"] != "registry+v1" {
		errs = append(errs, problem("metadata/annotations.yaml", "it is not of package %s and registry+v1", Package))
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
