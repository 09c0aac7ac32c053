package kube

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize limits the listed objects that are in memory as stored: an object has at most 1.5 MB in etcd.
const pageSize = 25

// newInformer creates informers that list in pages, and reduce each page to what is kept before they request the next one. API servers before
// 1.34 do not stream lists (https://kep.k8s.io/3157) and would send all objects at once.
func (all Informers) newInformer(from toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	source := toolscache.ToListerWatcherWithContext(from)
	keep := Informer{}
	for _, i := range all {
		if reflect.TypeOf(i.Object) == reflect.TypeOf(o) {
			keep = i
			keep.Share = nil // the cache applies it when it stores an object
		}
	}
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return listInPages(ctx, source.ListWithContext, options, keep.Transform)
		},
		WatchFuncWithContext: source.WatchWithContext,
	}, o, resync, indexers)
}

// listInPages lists the current objects, whatever resource version the options require: for others, API servers send the whole list at once.
func listInPages(ctx context.Context, list pager.ListPageFunc, options metav1.ListOptions, keep toolscache.TransformFunc) (runtime.Object, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		return page, meta.EachListItem(page, func(item runtime.Object) error { return cutItem(item, keep) })
	})
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", pageSize
	all, _, err := pages.ListWithAlloc(ctx, options)
	return all, err
}

// cutItem replaces an item of a list with what is kept of it.
func cutItem(item runtime.Object, keep toolscache.TransformFunc) error {
	kept, err := keep(item)
	if err != nil {
		return err
	}
	object, ok := kept.(client.Object)
	if !ok || reflect.TypeOf(object) != reflect.TypeOf(item) {
		return fmt.Errorf("trimming list item of type %T: got type %T", item, kept)
	}
	if runtime.Object(object) != item {
		reflect.ValueOf(item).Elem().Set(reflect.ValueOf(object).Elem())
	}
	return nil
}
