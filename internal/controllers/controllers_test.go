package controllers

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/windows-machine-config/wmco/internal/csr"
)

// TestTheCacheKeepsLittleOfARequest has a node make a request of a megabyte.
func TestTheCacheKeepsLittleOfARequest(t *testing.T) {
	var transform func(any) (any, error)
	for o, by := range Cache("ns").ByObject {
		if _, ok := o.(*certificatesv1.CertificateSigningRequest); ok {
			transform = by.Transform
		}
	}
	if transform == nil {
		t.Fatal("the cache keeps requests as they are")
	}
	for size, want := range map[int]int{1000: 1000, csr.MaxRequest: csr.MaxRequest, 1 << 20: csr.MaxRequest + 1} {
		request := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: "system:node:win-1"}}
		request.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		request.Spec.Request = make([]byte, size)
		kept, err := transform(request)
		if err != nil {
			t.Fatal(err)
		}
		is := kept.(*certificatesv1.CertificateSigningRequest)
		if len(is.Spec.Request) != want || cap(is.Spec.Request) > 2*csr.MaxRequest && size != want || is.ManagedFields != nil || is.Spec.Username == "" {
			t.Errorf("of %d bytes it keeps %d (%d), want %d, and who asked; %+v", size, len(is.Spec.Request), cap(is.Spec.Request), want, is.ManagedFields)
		}
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "x"}
	if kept, err := transform(gone); err != nil || kept != any(gone) {
		t.Errorf("of a request whose end was missed it makes %v, %v", kept, err)
	}
}
