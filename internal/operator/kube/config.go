package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// ReadConfig returns the spec of WindowsConfig, or the defaults if there is none.
func ReadConfig(ctx context.Context, reader client.Reader) (v1alpha1.WindowsConfigSpec, error) {
	var config v1alpha1.WindowsConfig
	err := reader.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config)
	if client.IgnoreNotFound(err) != nil {
		return v1alpha1.WindowsConfigSpec{}, fmt.Errorf("reading WindowsConfig %s: %w", api.WindowsConfigName, err)
	}
	return config.Spec, nil
}
