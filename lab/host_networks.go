//go:build linux

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hns"
)

// NetworkService is the name of the host's network service, as its service manager has it. While it is stopped, every call to it fails.
const NetworkService = "hns"

// NetworkObjects returns what the host's network service has of a kind, whether it runs or not.
func (h *Host) NetworkObjects(kind hns.Kind) (found []hns.Object, err error) {
	err = h.networks(func(s *hns.Store) error {
		found, err = s.List(kind, "")
		return err
	})
	return found, err
}

// CreateNetworkObject makes an object as a program of the host would, such as what somebody else left there.
func (h *Host) CreateNetworkObject(kind hns.Kind, settings any) (made hns.Object, err error) {
	document, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", kind, err)
	}
	id := strings.ToUpper(string(uuid.NewUUID()))
	err = h.networks(func(s *hns.Store) error {
		made, err = s.Create(kind, id, document)
		return err
	})
	return made, err
}

// RestartNetworkService stops the host's network service and starts it; meanwhile objects of the kinds that it loses are gone.
func (h *Host) RestartNetworkService(ctx context.Context, loses ...hns.Kind) error {
	if err := h.changeService(ctx, h.StopService, "stopped"); err != nil {
		return fmt.Errorf("restarting the network service of %s: %w", h.name, err)
	}
	if err := h.networks(func(s *hns.Store) error { return s.Lose(loses...) }); err != nil {
		return fmt.Errorf("losing networks of %s: %w", h.name, err)
	}
	if err := h.changeService(ctx, h.StartService, "running"); err != nil {
		return fmt.Errorf("restarting the network service of %s: %w", h.name, err)
	}
	return nil
}

func (h *Host) changeService(ctx context.Context, change func(context.Context, string) error, state string) error {
	if err := change(ctx, NetworkService); err != nil {
		return err
	}
	for {
		s, _, err := h.Service(ctx, NetworkService)
		if err != nil || s.State == state {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s is %s: it is %s: %w", NetworkService, state, s.State, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// LoseNetworkObject takes an object away behind everybody's back. What refers to it stays.
func (h *Host) LoseNetworkObject(kind hns.Kind, id string) error {
	return h.networks(func(s *hns.Store) error { return s.LoseOne(kind, id) })
}

// LoseNetworkObjects takes all objects of some kinds away behind everybody's back.
func (h *Host) LoseNetworkObjects(kinds ...hns.Kind) error {
	return h.networks(func(s *hns.Store) error { return s.Lose(kinds...) })
}

// InjectNetworkFault has calls to the host's network service be slow, or fail. A boot ends it.
func (h *Host) InjectNetworkFault(f hns.Fault) error {
	return h.networks(func(s *hns.Store) error { return s.Inject(f) })
}

// ClearNetworkFaults ends all faults that were injected.
func (h *Host) ClearNetworkFaults() error {
	return h.networks(func(s *hns.Store) error { return s.Clear() })
}

// networks does something with what the host's network service has. The host gives and takes addresses as endpoints come and go.
func (h *Host) networks(do func(*hns.Store) error) error {
	dir, err := h.Path(guestapi.NetworksDir)
	if err != nil {
		return err
	}
	store := hns.Store{Dir: dir, Address: h.Address, Changed: h.setAddresses}
	return errors.Join(do(&store), store.Close())
}

// setAddresses has the host's keeper look which addresses the host needs for its endpoints.
func (h *Host) setAddresses() error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := dialInside(ctx, pid, "127.0.0.1:"+strconv.Itoa(guestapi.AddressesPort))
	if err != nil {
		return fmt.Errorf("telling %s of addresses: %w", h.name, err)
	}
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	if err == nil && string(answer) != guestapi.AddressesDone {
		err = errors.New(strings.TrimSpace(string(answer)))
	}
	return err
}
