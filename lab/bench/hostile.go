//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// hostileHosts attack for hostileFor, while groups of honestHosts join.
	hostileHosts = 32
	honestHosts  = 10
	hostileFor   = 5 * time.Minute
	// junkRequests is the number of invalid certificate requests, first and in all.
	junkRequests, allRequests = 5000, 30_000
	// largePods are made by tenants, largeConfigMaps in the operator's namespace: together 1.2 GB, which etcd takes by default (2 GB).
	largePods, largeConfigMaps = 1000, 150
	tenants                    = 10
)

// measureHostile measures joins of honest hosts alone, with invalid certificate requests, and with hostile hosts, tenants, writers and nodes at
// once, who fill what the operator reads.
func measureHostile(ctx context.Context, s *sheet) error {
	measureMask(s)
	c, err := openCrowd(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	f := fleet{c}
	if _, err := f.joinAll(ctx, honestHosts); err != nil { // one-time work
		return err
	}
	alone, err := f.joins(ctx, 0)
	if err != nil {
		return err
	}
	if err := f.measureJunk(ctx); err != nil {
		return err
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	evil, err := f.addHostile(ctx)
	if err != nil {
		return err
	}
	beside, err := f.joins(ctx, hostileFor)
	if err != nil {
		return err
	}
	peak, err := f.Operator.PeakMemory()
	if err != nil {
		return err
	}
	f.number("hostile.operator_rss_mb", float64(peak)/1e6, "MB")
	f.number("hostile.honest_join_seconds", median(beside), "s")
	f.number("hostile.honest_join_ratio", median(beside)/median(alone), "ratio")
	if err := f.remove(ctx, evil); err != nil {
		return err
	}
	return f.measureNames(ctx)
}

// joins has honest hosts join, again and again.
func (f fleet) joins(ctx context.Context, atLeast time.Duration) (all []float64, err error) {
	for began := time.Now(); len(all) < rounds || time.Since(began) < atLeast; {
		seconds, err := f.joinAll(ctx, honestHosts)
		if err != nil {
			return nil, err
		}
		all = append(all, seconds)
		if atLeast > 0 {
			time.Sleep(10 * time.Second)
		}
	}
	return all, nil
}

// addHostile adds hosts with malice of each kind, and as many whose answers take much memory.
func (f fleet) addHostile(ctx context.Context) ([]testenv.Host, error) {
	_, evil, err := f.AddHostile(hostileHosts, f.Hosts()...)
	if err != nil {
		return nil, err
	}
	for n := range hostileHosts {
		_, at, err := f.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: fmt.Sprintf("values-%d", n), Kind: testenv.OnlyMalice}, Malice: sim.Values})
		if err != nil {
			return nil, err
		}
		evil = append(evil, at)
	}
	for _, h := range evil {
		if err := f.Client.Create(ctx, h.Instance()); err != nil {
			return nil, err
		}
	}
	return evil, nil
}

// remove releases hosts unchanged.
func (f fleet) remove(ctx context.Context, hosts []testenv.Host) error {
	for _, h := range hosts {
		i := h.Instance()
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		before := i.DeepCopy()
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationRelease, "true")
		if err := f.Client.Patch(ctx, i, client.MergeFrom(before)); err != nil {
			return err
		}
		if err := f.Client.Delete(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// measureJunk creates certificate requests for daemons of hosts that do not exist. The operator decides about all of them
// repeatedly. Meanwhile hosts join.
func (f fleet) measureJunk(ctx context.Context) error {
	f.say("Creating %d certificate requests that violate a rule", junkRequests)
	if err := f.request(ctx, "junk", junkRequests); err != nil {
		return err
	}
	seconds, err := f.joinAll(ctx, honestHosts)
	if err != nil {
		return err
	}
	f.number("csr.junk_5000_join_seconds", seconds, "s")
	return nil
}
