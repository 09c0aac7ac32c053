//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/dashboard"
	"github.com/windows-machine-config/wmco/lab/pagetest"
)

const (
	// pageRounds is how often each number of the page is measured; the median counts.
	pageRounds = 5
	pageHosts  = 1000
)

// measurePage shows a thousand hosts in Chromium: each round in a new browser that has no part of the page yet, with a page that runs already.
func measurePage(ctx context.Context, s *sheet) error {
	if err := pagetest.CanShow(); err != nil {
		return err
	}
	bytes, err := dashboard.Weight()
	if err != nil {
		return err
	}
	s.number("page.weight_kb", float64(bytes)/1024, "KiB")
	s.say("creating %d hosts", pageHosts)
	c, err := pagetest.OpenCluster(ctx, pageHosts, s.progress)
	if err != nil {
		return err
	}
	defer c.Close()
	var paints, changes []float64
	for round := range pageRounds {
		painted, changed, err := pageRound(ctx, c, round)
		if err != nil {
			return err
		}
		s.say("round %d: painted after %s, changed after %s", round+1, painted, changed)
		paints, changes = append(paints, painted.Seconds()*1000), append(changes, changed.Seconds()*1000)
	}
	s.number("page.first_paint_ms_1000", median(paints), "ms")
	s.number("page.change_ms", median(changes), "ms")
	return nil
}

// pageRound opens the page, and changes one host.
func pageRound(ctx context.Context, c *pagetest.Cluster, round int) (painted, changed time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	link, err := pagetest.Serve(ctx, c.RESTConfig(), "bench")
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(5 * time.Second) // it reads the cluster
	p, err := pagetest.Open(ctx, link)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	if painted, err = p.Painted(); err != nil {
		return 0, 0, err
	}
	began, err := c.Change(ctx, 200+round, fmt.Sprintf("round %d", round))
	if err != nil {
		return 0, 0, err
	}
	err = p.Until(fmt.Sprintf(`document.querySelector('#grid a[href="#/host/%s"]').className === "error"`, pagetest.HostName(200+round)), 30*time.Second)
	return painted, time.Since(began), err
}
