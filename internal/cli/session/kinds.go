package session

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// MachineNamespace is the namespace of the Machines of OpenShift's Machine API.
const MachineNamespace = "openshift-machine-api"

// MachineAPI returns the group and version of OpenShift's Machine API.
func MachineAPI() schema.GroupVersion {
	return schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}
}

// ClientOptions returns options for a client of the kinds that commands use. They need no discovery requests.
func ClientOptions() (client.Options, error) {
	scheme := runtime.NewScheme()
	return client.Options{Scheme: scheme, Mapper: knownKinds()}, errors.Join(
		v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), policyv1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme),
		networkingv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), nodev1.AddToScheme(scheme),
	)
}

// knownKinds maps the kinds that commands use to their resources without discovery requests.
func knownKinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "Pod", "Event", "ServiceAccount"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Node", "Namespace"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Job", "CronJob"} {
		m.Add(batchv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), meta.RESTScopeRoot)
	m.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	m.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	m.Add(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot)
	m.Add(v1alpha1.GroupVersion().WithKind("WindowsInstance"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion().WithKind("WindowsPolicySet"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion().WithKind("WindowsConfig"), meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Infrastructure"}, meta.RESTScopeRoot)
	for _, kind := range []string{"MachineSet", "Machine"} {
		m.Add(MachineAPI().WithKind(kind), meta.RESTScopeNamespace)
	}
	return m
}
