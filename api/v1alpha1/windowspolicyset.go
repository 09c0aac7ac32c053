package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WindowsPolicySet is what the NetworkPolicies of one namespace allow its pods on Windows nodes. The operator writes one
// in its own namespace, with the name of the namespace, for each namespace with NetworkPolicies, unless
// spec.network.policies of WindowsConfig is Off. Windows nodes read it. Change the NetworkPolicies instead: the operator
// overwrites other changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=windowspolicysets,singular=windowspolicyset
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the object was created"
type WindowsPolicySet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator compiled.
	// +required
	Spec WindowsPolicySetSpec `json:"spec"`
}

// WindowsPolicySetList is a list of WindowsPolicySets.
//
// +kubebuilder:object:root=true
type WindowsPolicySetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsPolicySet `json:"items"`
}

// WindowsPolicySetSpec is what the operator compiled.
type WindowsPolicySetSpec struct {
	// set is JSON in a format of the operator and its nodes, with a version of its own: nodes close the pods of a
	// namespace whose set they cannot read.
	// +kubebuilder:validation:MaxLength=1048576
	// +required
	Set string `json:"set"`
}
