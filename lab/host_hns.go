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

	"github.com/google/uuid"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// NetworkService is the Windows service of HNS on a host. While it is stopped, every call of HNS fails.
const NetworkService = "hns"

// HNS is the Host Network Service of a host. Its methods act as other programs on the host would.
type HNS struct{ host *Host }

// HNS returns the host's network service.
func (h *Host) HNS() HNS { return HNS{h} }

// List returns all objects of a kind, whether the service runs or not.
func (s HNS) List(kind hns.Kind) (found []hns.Object, err error) {
	err = s.do(func(store *hns.Store) error {
		found, err = store.List(kind, "")
		return err
	})
	return found, err
}

// Create creates an object, such as one that another program left behind.
func (s HNS) Create(kind hns.Kind, settings any) (created hns.Object, err error) {
	document, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", kind, err)
	}
	id := strings.ToUpper(uuid.NewString())
	err = s.do(func(store *hns.Store) error {
		created, err = store.Create(kind, id, document)
		return err
	})
	return created, err
}

// Modify sends a request to change an object, as hcsshim's hcn.ModifyEndpointSettings does.
func (s HNS) Modify(kind hns.Kind, id string, request any) error {
	document, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	return s.do(func(store *hns.Store) error { return store.Modify(kind, id, document) })
}

// Restart stops the service, removes all objects of the given kinds, and starts it.
func (s HNS) Restart(ctx context.Context, loses ...hns.Kind) error {
	if err := s.changeService(ctx, s.host.StopService, "stopped"); err != nil {
		return fmt.Errorf("restarting the network service of %s: %w", s.host.name, err)
	}
	if err := s.Lose(loses...); err != nil {
		return fmt.Errorf("removing network objects of %s: %w", s.host.name, err)
	}
	if err := s.changeService(ctx, s.host.StartService, "running"); err != nil {
		return fmt.Errorf("restarting the network service of %s: %w", s.host.name, err)
	}
	return nil
}

func (s HNS) changeService(ctx context.Context, change func(context.Context, string) error, state string) error {
	if err := change(ctx, NetworkService); err != nil {
		return err
	}
	return Until(ctx, 20*time.Millisecond, "service "+NetworkService+" to be "+state, func(ctx context.Context) error {
		service, _, err := s.host.Service(ctx, NetworkService)
		if err == nil && service.State != state {
			err = fmt.Errorf("its state is %s", service.State)
		}
		return err
	}, s.host.failure)
}

// LoseOne removes an object without a notification. References to it remain.
func (s HNS) LoseOne(kind hns.Kind, id string) error {
	return s.do(func(store *hns.Store) error { return store.LoseOne(kind, id) })
}

// Lose removes all objects of some kinds without a notification.
func (s HNS) Lose(kinds ...hns.Kind) error {
	return s.do(func(store *hns.Store) error { return store.Lose(kinds...) })
}

// Inject delays calls of HNS or makes them fail until the next boot.
func (s HNS) Inject(f hns.Fault) error {
	return s.do(func(store *hns.Store) error { return store.Inject(f) })
}

// SetQuirks changes the quirks of HNS permanently.
func (s HNS) SetQuirks(q hns.Quirks) error {
	return s.do(func(store *hns.Store) error { return store.SetQuirks(q) })
}

// do opens the journal of the host's HNS. The host gets and loses the addresses of endpoints that change creates and removes.
func (s HNS) do(change func(*hns.Store) error) error {
	dir, err := s.host.Path(guestapi.NetworksDir)
	if err != nil {
		return err
	}
	store := hns.Store{Dir: dir, Address: s.host.Address, Changed: s.host.setAddresses}
	return errors.Join(change(&store), store.Close())
}

// setAddresses has the host's reaper assign the addresses of all endpoints to the host.
func (h *Host) setAddresses() error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := dialInside(ctx, pid, "127.0.0.1:"+strconv.Itoa(guestapi.AddressesPort))
	if err != nil {
		return fmt.Errorf("connecting to the reaper of %s: %w", h.name, err)
	}
	defer conn.Close()
	response, err := io.ReadAll(conn)
	if err == nil && string(response) != guestapi.AddressesDone {
		err = errors.New(strings.TrimSpace(string(response)))
	}
	return err
}
