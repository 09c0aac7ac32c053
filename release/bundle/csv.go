package bundle

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of a ClusterServiceVersion, as far as a bundle of this operator has it: operators.coreos.com/v1alpha1 of
// github.com/operator-framework/api, which is on no module proxy.

// CSV is a ClusterServiceVersion: how OLM installs a version of the operator, and what consoles show of it.
type CSV struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        CSVMetadata `json:"metadata"`
	Spec            CSVSpec     `json:"spec"`
}

// CSVMetadata is the metadata of a CSV. The namespace is a placeholder.
type CSVMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
}

// CSVSpec is the specification of a CSV.
type CSVSpec struct {
	DisplayName    string          `json:"displayName"`
	Description    string          `json:"description"`
	Version        string          `json:"version"`
	Replaces       string          `json:"replaces,omitempty"`
	Maturity       string          `json:"maturity"`
	MinKubeVersion string          `json:"minKubeVersion"`
	Keywords       []string        `json:"keywords"`
	Maintainers    []Maintainer    `json:"maintainers"`
	Provider       Provider        `json:"provider"`
	Links          []Link          `json:"links"`
	Icon           []Icon          `json:"icon"`
	InstallModes   []InstallMode   `json:"installModes"`
	Definitions    Definitions     `json:"customresourcedefinitions"`
	Install        InstallStrategy `json:"install"`
	RelatedImages  []RelatedImage  `json:"relatedImages"`
}

// Maintainer answers questions.
type Maintainer struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Provider publishes the operator.
type Provider struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Link is shown beside the description.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Icon is the picture of a tile.
type Icon struct {
	Data      []byte `json:"base64data"`
	MediaType string `json:"mediatype"`
}

// InstallMode says whether an OperatorGroup may select namespaces in a way.
type InstallMode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

// Definitions are the kinds that the operator defines.
type Definitions struct {
	Owned []Definition `json:"owned"`
}

// Definition describes a kind for consoles.
type Definition struct {
	Name              string       `json:"name"`
	Version           string       `json:"version"`
	Kind              string       `json:"kind"`
	DisplayName       string       `json:"displayName"`
	Description       string       `json:"description"`
	Resources         []Reference  `json:"resources,omitempty"`
	SpecDescriptors   []Descriptor `json:"specDescriptors,omitempty"`
	StatusDescriptors []Descriptor `json:"statusDescriptors,omitempty"`
}

// Reference is a kind of objects that belong to an object. The name may be empty but must be there.
type Reference struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// Descriptor says how consoles show a field.
type Descriptor struct {
	Path         string   `json:"path"`
	DisplayName  string   `json:"displayName"`
	Description  string   `json:"description"`
	XDescriptors []string `json:"x-descriptors,omitempty"`
}

// InstallStrategy is what OLM creates.
type InstallStrategy struct {
	Strategy string       `json:"strategy"`
	Spec     StrategySpec `json:"spec"`
}

// StrategySpec are the permissions of ServiceAccounts, and the Deployments.
type StrategySpec struct {
	ClusterPermissions []Permission `json:"clusterPermissions"`
	Permissions        []Permission `json:"permissions"`
	Deployments        []Deployment `json:"deployments"`
}

// Permission is what a ServiceAccount may do. OLM creates the account, a role and its binding.
type Permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// Deployment is one that OLM creates in the namespace of the OperatorGroup.
type Deployment struct {
	Name  string                `json:"name"`
	Label map[string]string     `json:"label"`
	Spec  appsv1.DeploymentSpec `json:"spec"`
}

// RelatedImage is an image that must be mirrored for clusters without a connection to its registry.
type RelatedImage struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// container is the only container of the only Deployment.
func (c *CSV) container() *corev1.Container {
	return &c.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0]
}
