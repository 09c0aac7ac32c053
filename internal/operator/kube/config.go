package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// GetConfig returns WindowsConfig, or an empty one if there is none.
func GetConfig(ctx context.Context, reader client.Reader) (*v1alpha1.WindowsConfig, error) {
	config := &v1alpha1.WindowsConfig{}
	if err := reader.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, config); client.IgnoreNotFound(err) != nil {
		return config, fmt.Errorf("reading WindowsConfig %s: %w", api.WindowsConfigName, err)
	}
	return config, nil
}

// ReadConfig returns the spec of WindowsConfig, or the defaults if there is none.
func ReadConfig(ctx context.Context, reader client.Reader) (v1alpha1.WindowsConfigSpec, error) {
	config, err := GetConfig(ctx, reader)
	return config.Spec, err
}

// WriteCondition sets a condition of WindowsConfig, or removes it if the given one has no status. Without a WindowsConfig, it does nothing.
func WriteCondition(ctx context.Context, reader client.Reader, writer client.StatusClient, condition metav1.Condition) error {
	config, err := GetConfig(ctx, reader)
	if err != nil || config.ResourceVersion == "" {
		return err
	}
	before := config.DeepCopy()
	var changed bool
	if condition.Status == "" {
		changed = meta.RemoveStatusCondition(&config.Status.Conditions, condition.Type)
	} else {
		condition.ObservedGeneration = config.Generation
		changed = meta.SetStatusCondition(&config.Status.Conditions, condition)
	}
	if !changed {
		return nil
	}
	// Other controllers write conditions, too: a patch of a stale object must fail, and is retried.
	return writer.Status().Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
