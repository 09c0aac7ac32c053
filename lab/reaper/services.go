//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/balancer"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// balanceInterval is the minimum time between two changes of the ruleset.
const balanceInterval = 200 * time.Millisecond

// balanceServices keeps the kernel's ruleset in sync with the load balancers of the host's network service, asynchronously.
func (h host) balanceServices() error {
	log, err := h.folder.OpenFile("console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the console log: %w", err)
	}
	go func() {
		store := networks()
		applied, rules, lastError := "", "", ""
		for {
			began := time.Now()
			revision, err := store.Revision()
			if err == nil && revision != applied {
				rules, err = h.applyServices(store, rules)
			}
			if err == nil {
				applied = revision
			} else if err.Error() != lastError {
				lastError = err.Error()
				fmt.Fprintln(log, "reaper: balancing Services:", err)
			}
			time.Sleep(max(balanceInterval, 4*time.Since(began))) // applying thousands of rules takes a while
		}
	}()
	return nil
}

// applyServices applies the rules if they differ from the current ones, and returns them. Most changes of the journal do not
// affect load balancers.
func (h host) applyServices(store *hns.Store, rules string) (string, error) {
	address, err := netip.ParseAddr(ownAddress())
	if err != nil {
		return rules, fmt.Errorf("finding the host's address: %w", err)
	}
	pods, err := netip.ParsePrefix(h.spec.PodNetwork)
	if err != nil {
		return rules, fmt.Errorf("parsing the pod network: %w", err)
	}
	networks, err := store.List(hns.Network, "")
	if err != nil {
		return rules, err
	}
	loadBalancers, err := store.List(hns.LoadBalancer, "")
	if err != nil {
		return rules, err
	}
	endpoints, err := store.List(hns.Endpoint, "")
	if err != nil {
		return rules, err
	}
	want := balancer.Ruleset(address, pods, networks, loadBalancers, endpoints)
	if want == rules {
		return rules, nil
	}
	if err := nft(h.spec.NFT, want); err != nil {
		return rules, err
	}
	return want, nil
}

// nft applies a ruleset atomically. The host's first process reaps all children, so that only the output of nft shows whether
// it failed.
func nft(program, rules string) error {
	stdin, toChild, err := os.Pipe()
	if err != nil {
		return err
	}
	defer toChild.Close()
	fromChild, output, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close())
	}
	defer fromChild.Close()
	_, err = os.StartProcess(program, []string{program, "-f", "-"}, &os.ProcAttr{Dir: "/", Files: []*os.File{stdin, output, output}})
	if err := errors.Join(err, stdin.Close(), output.Close()); err != nil {
		return fmt.Errorf("starting nft: %w", err)
	}
	_, writeErr := io.WriteString(toChild, rules)
	_ = toChild.Close()
	reported, err := io.ReadAll(io.LimitReader(fromChild, 4096))
	if err := errors.Join(writeErr, err); err != nil {
		return fmt.Errorf("running nft: %w", err)
	}
	if len(reported) > 0 {
		return fmt.Errorf("running nft: %s", strings.TrimSpace(string(reported)))
	}
	return nil
}
