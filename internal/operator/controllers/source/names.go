package source

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

const (
	// namesLifetime is how long the names of Machines are cached: hundreds of hosts may join at once.
	namesLifetime = 10 * time.Second
	// machinesPage is how many Machines are read at a time.
	machinesPage = 200
)

// machineNames caches the names that Machines of every operating system have or give to their hosts.
type machineNames struct {
	mu     sync.Mutex
	readAt time.Time
	ids    map[string]string // IDs of Machines, by name
}

// Named implements Announcer. It queries the API server, because the cache has Windows Machines only. Names that cannot be read are not reserved.
func (s *machineSource) Named(ctx context.Context, name, except string) (holder string) {
	place := s.place.Load()
	if place == nil {
		return ""
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if time.Since(s.names.readAt) > namesLifetime {
		ids, err := s.readNames(ctx, place)
		if err != nil {
			log.FromContext(ctx).Info("Reading the names of all Machines failed; only known names are reserved", "error", err.Error())
		} else {
			s.names.ids, s.names.readAt = ids, time.Now()
		}
	}
	id := s.names.ids[name]
	if id == "" || machineName(id) == machineName(except) {
		return "" // unknown, or of the same Machine in either API
	}
	return "Machine " + id
}

func machineName(id string) string {
	_, name, _ := strings.Cut(id, "/")
	return name
}

func (s *machineSource) readNames(ctx context.Context, place *machinePlace) (map[string]string, error) {
	ids := map[string]string{}
	for next := ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(place.kind)
		if err := s.Live.List(ctx, list, client.InNamespace(place.namespace), client.Limit(machinesPage), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			m, err := machines.Read(&list.Items[i])
			if err != nil {
				continue
			}
			for _, name := range append(m.Names, m.Name) {
				ids[name] = machines.ID(m.Namespace, m.Name)
			}
		}
		if next = list.GetContinue(); next == "" {
			return ids, nil
		}
	}
}
