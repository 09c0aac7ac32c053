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

// balanceEvery is the shortest time between two changes of the ruleset.
const balanceEvery = 200 * time.Millisecond

// balance keeps the kernel's ruleset equal to the load balancers of the host's network service. Calls of the service do not wait for it.
func (h host) balance() error {
	log, err := h.folder.OpenFile("console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the console log: %w", err)
	}
	go func() {
		store := networks()
		done, rules, output := "", "", ""
		for {
			began := time.Now()
			revision, err := store.Revision()
			if err == nil && revision != done {
				rules, err = h.applyServices(store, rules)
			}
			if err == nil {
				done = revision
			} else if err.Error() != output {
				output = err.Error()
				fmt.Fprintln(log, "reaper: balancing Services:", err)
			}
			time.Sleep(max(balanceEvery, 4*time.Since(began))) // thousands of rules take a while
		}
	}()
	return nil
}

// applyServices changes the kernel's rules where they differ, and returns them: most changes of the journal concern no load balancer.
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
	wanted := balancer.Ruleset(address, pods, networks, loadBalancers, endpoints)
	if wanted == rules {
		return rules, nil
	}
	if err := nft(h.spec.NFT, wanted); err != nil {
		return rules, err
	}
	return wanted, nil
}

// nft applies a ruleset at once. The host's first process reaps all children, so only the program's output shows whether it failed.
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
