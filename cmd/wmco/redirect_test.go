package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// TestRedirectsAreRefused expects the operator to send its token to the API server only.
func TestRedirectsAreRefused(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.URL.Path) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["a"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: "secret"}
	kubeconfig.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	kubeconfig.CurrentContext = "a"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	var redirect *httpclient.Redirect
	if !errors.As(err, &redirect) || len(got) > 0 {
		t.Errorf("listing Nodes: %v; the other server received %q", err, got)
	}
}
