// Package settings publishes the signed desired state of nodes, one ConfigMap for each version. Other packages use Renderer to render the current
// settings, and Store to read the published ones.
package settings

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// checkInterval is how often the settings are checked without an event: certificates expire, and objects that the cluster's installer wrote are not
// watched.
const checkInterval = 5 * time.Minute

// Controller publishes the settings of nodes. Nodes read and apply them on their own: a change costs the same few writes for one node and for a
// thousand.
type Controller struct {
	Options
	// published is the hash that this process published last. Only one worker uses it.
	published string
	// ends is the metric of when support of the nodes' components ends.
	ends *supportEnds
	// serials are the last serials that were signed or read, by name of the ConfigMap. Only one worker uses them.
	serials map[string]int64
}

// Options are the controller's dependencies.
type Options struct {
	Client    client.Client
	Live      client.Reader
	Events    kube.Events
	Namespace string
	Store     *Store
	Renderer  *Renderer
	Policies  *admission.Policies
	// Registry registers the metrics.
	Registry prometheus.Registerer
}

// New creates the controller and registers its metrics.
func New(o Options) *Controller {
	ends := newSupportEnds(o.Client)
	o.Registry.MustRegister(newLag(o.Client, o.Store), ends)
	return &Controller{Options: o, ends: ends, serials: map[string]int64{}}
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	enqueue := kube.Enqueue("", api.WindowsConfigName)
	b := builder.ControllerManagedBy(m).
		Named("settings").
		Watches(&v1alpha1.WindowsConfig{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(IsSetting))).
		Watches(&corev1.Secret{}, enqueue). // the SSH key
		Watches(&rbacv1.Role{}, enqueue).
		Watches(&nodev1.RuntimeClass{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(isIsolating))).
		WatchesRawSource(ctrlsource.Channel(c.Policies.Changed, enqueue)).
		WatchesRawSource(ctrlsource.Channel(c.Renderer.Releases.Changed(), enqueue)).
		Watches(&corev1.Node{}, enqueueSoon(), builder.WithPredicates(nodeReported()))
	for _, name := range []string{api.NodeSecrets, api.SigningKeySecret, api.PullSecret} {
		secret, err := watchOne(m, &corev1.Secret{}, types.NamespacedName{Namespace: c.Namespace, Name: name}, enqueue)
		if err != nil {
			return err
		}
		b = b.WatchesRawSource(secret)
	}
	flannel, err := watchOne(m, &corev1.ConfigMap{}, desired.FlannelConfig(v1alpha1.NetworkSpec{}), enqueue)
	if err != nil {
		return err
	}
	b = b.WatchesRawSource(flannel)
	for _, kind := range cluster.Kinds() {
		if _, err := m.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			continue // not OpenShift
		} else if err != nil {
			return fmt.Errorf("finding kind %s: %w", kind.Kind, err)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		b = b.Watches(object, enqueue)
	}
	ctl, err := b.Build(c)
	if err != nil {
		return err
	}
	openShiftSecret := kube.OptionalKind{
		Kind: "Secret", Versions: []string{"v1"}, Namespace: cluster.OpenShiftPullSecret().Namespace, Name: cluster.OpenShiftPullSecret().Name,
		Events: enqueue, Found: func(schema.GroupVersionKind, client.Reader) {},
	}
	return kube.WatchWhenAvailable(m, ctl, func(context.Context) (kube.OptionalKind, error) { return openShiftSecret, nil }, func() {})
}

// watchOne watches one object by name, because the operator may not read others of its kind in the namespace. A cache lists either all objects of a
// namespace or one, so each object has a cache of its own.
func watchOne(m manager.Manager, kind client.Object, name types.NamespacedName, h handler.EventHandler) (ctrlsource.Source, error) {
	single, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		ByObject: kube.Informers{{Object: kind, Namespace: name.Namespace, Name: name.Name}}.Cache().ByObject, // read live; the cache only signals changes
	})
	if err == nil {
		err = m.Add(single)
	}
	if err != nil {
		return nil, fmt.Errorf("watching %T %s: %w", kind, name, err)
	}
	return ctrlsource.Kind(single, kind, h), nil
}

// IsSetting reports whether a ConfigMap is an input of the settings or is published by them.
func IsSetting(o client.Object) bool {
	return o.GetName() == api.TrustedCAConfigMap || strings.HasPrefix(o.GetName(), api.ServicesConfigMapPrefix)
}

// isIsolating reports whether a RuntimeClass is for pods with Hyper-V isolation.
func isIsolating(o client.Object) bool { return isolates(*o.(*nodev1.RuntimeClass)) }

func settingsRequest() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: api.WindowsConfigName}}
}

// Reconcile publishes the current settings. If that fails, nodes keep the ones they have.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	config, err := kube.GetConfig(ctx, c.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	known, rendered, hash, err := c.renew(ctx, config)
	for _, p := range rendered.Problems {
		// Events of the same action are merged into the first: each problem has an action of its own.
		action := fmt.Sprintf("%s-%.4x", p.Reason, sha256.Sum256([]byte(p.Message)))
		c.Events.Emit(kube.Event{Object: c.objectOf(config, p), Type: corev1.EventTypeWarning, Reason: api.EventSettingsIgnored, Action: action}, "%s", p.Message)
	}
	if err == nil {
		c.ends.openShift.Store(new(known.Network.OpenShift))
	}
	report := c.report(ctx, config, published{known.CloudProvider, known.Network.OpenShift, rendered, hash, err})
	if errors.Is(err, desired.ErrNetwork) || errors.Is(err, desired.ErrSettings) {
		err = nil // an edit triggers the next reconcile
	}
	return reconcile.Result{RequeueAfter: checkInterval}, errors.Join(err, report)
}

// objectOf returns the object of a problem: one of OpenShift's, one of the operator's, or else WindowsConfig.
func (c *Controller) objectOf(config *v1alpha1.WindowsConfig, p desired.Problem) client.Object {
	kinds := cluster.Kinds()
	if i := slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Kind == p.Kind }); i >= 0 {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kinds[i])
		object.SetName(p.Name)
		return object
	}
	if p.Kind == "ConfigMap" {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: p.Name}}
	}
	return config
}

func (c *Controller) renew(ctx context.Context, config *v1alpha1.WindowsConfig) (desired.Cluster, desired.Rendered, string, error) {
	known, rendered, err := c.Renderer.Render(ctx, config.Spec)
	if err != nil {
		return known, rendered, "", err
	}
	if known.Network.OpenShift {
		if err := c.requestTrustedCA(ctx); err != nil {
			return known, rendered, "", err
		}
	}
	s, err := c.signer(ctx, known.ID)
	if err != nil {
		return known, rendered, "", err
	}
	rendered.Node.SigningKey = desired.PublicKey(s.private)
	if err := c.addKeys(ctx, &rendered.Node, s); err != nil {
		return known, rendered, "", err
	}
	hash, err := c.publish(ctx, rendered, s)
	return known, rendered, hash, err
}

// published is the result of rendering and publishing, for the status.
type published struct {
	provider  platform.Provider
	openShift bool
	desired.Rendered
	hash   string
	failed error
}

func (c *Controller) report(ctx context.Context, config *v1alpha1.WindowsConfig, got published) error {
	if config.UID == "" {
		return nil
	}
	before := config.DeepCopy()
	st := &config.Status
	st.ObservedGeneration = config.Generation
	meta.SetStatusCondition(&st.Conditions, c.Policies.Condition(config.Generation))
	if missing := c.Policies.LimitsMissing(config.Generation); missing != nil {
		meta.SetStatusCondition(&st.Conditions, *missing)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, api.ConditionLimitsMissing)
	}
	set := func(condition string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: config.Generation,
		})
	}
	if got.failed != nil {
		set(api.ConditionPublished, metav1.ConditionFalse, unpublishedReason(got.failed), got.failed.Error())
	} else {
		st.Settings, st.MissingServices = got.hash, got.Missing
		set(api.ConditionPublished, metav1.ConditionTrue, api.ReasonPublished, "nodes can read the settings")
		current, _ := c.Renderer.Releases.Current()
		setEndOfSupport(&st.Conditions, current, got.openShift, time.Now(), config.Generation)
	}
	if len(got.Problems) > 0 {
		var list []string
		for _, p := range got.Problems {
			list = append(list, p.Message)
		}
		set(api.ConditionDegraded, metav1.ConditionTrue, api.ReasonSettingsIgnored, truncate.Text(strings.Join(list, "\n"), maxConditionMessage))
	} else if got.failed == nil {
		set(api.ConditionDegraded, metav1.ConditionFalse, api.ReasonAsExpected, "no setting is ignored")
	}
	st.CloudProvider = reportProvider(got.provider, st.CloudProvider)
	var err error
	if st.Nodes, st.UpdatedNodes, err = c.countNodes(ctx, st.Settings); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Status, config.Status) {
		return nil
	}
	if err := c.Client.Status().Patch(ctx, config, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of WindowsConfig %s: %w", config.Name, err)
	}
	return nil
}

// reportProvider returns the status of the cloud provider. If it could not be read, the former status stays.
func reportProvider(p platform.Provider, previous *v1alpha1.CloudProviderStatus) *v1alpha1.CloudProviderStatus {
	if p.Why == "" {
		return previous
	}
	mode := v1alpha1.CloudProviderNone
	if p.External {
		mode = v1alpha1.CloudProviderExternal
	}
	return &v1alpha1.CloudProviderStatus{Mode: mode, Reason: p.Why}
}

func unpublishedReason(err error) string {
	if network := (*desired.NetworkError)(nil); errors.As(err, &network) {
		return network.Reason
	}
	return api.ReasonSettingsInvalid
}

// countNodes returns how many nodes have a version of this operator, and how many of them have applied the settings.
func (c *Controller) countNodes(ctx context.Context, settings string) (all, updated int32, err error) {
	nodes, err := kube.WindowsNodes(ctx, c.Client)
	if err != nil {
		return 0, 0, err
	}
	for i := range nodes {
		annotations := nodes[i].Annotations
		if annotations[api.AnnotationVersion] == "" {
			continue
		}
		all++
		if annotations[api.AnnotationSettings] == settings {
			updated++
		}
	}
	return all, updated, nil
}

// maxConditionMessage is the API's limit for the message of a condition (metav1.Condition).
const maxConditionMessage = 32768
