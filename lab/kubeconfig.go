//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// accountTokenLife is long enough for a demo that runs for a day.
const accountTokenLife = 24 * time.Hour

// Kubeconfig writes a kubeconfig file of a cluster administrator, mode 0600.
func (cp *ControlPlane) Kubeconfig(path string) error {
	return cp.writeKubeconfig(path, controlplane.User{Certificate: cp.credentials.Admin.Cert, Key: cp.credentials.Admin.Key})
}

// KubeconfigFor writes a kubeconfig file with a Token, mode 0600.
func (cp *ControlPlane) KubeconfigFor(ctx context.Context, namespace, serviceAccount, path string) error {
	token, err := cp.Token(ctx, namespace, serviceAccount)
	if err != nil {
		return err
	}
	return cp.writeKubeconfig(path, controlplane.User{Token: token})
}

// Token returns a token of an existing service account, which is bound to the account and valid for a day.
func (cp *ControlPlane) Token(ctx context.Context, namespace, serviceAccount string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(accountTokenLife.Seconds()))}}
	answer, err := cp.clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return answer.Status.Token, nil
}

func (cp *ControlPlane) writeKubeconfig(path string, user controlplane.User) error {
	content, err := controlplane.Kubeconfig(cp.config.URL(), cp.CA(), user)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
