//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// collectHosts is how many hosts are collected from at once.
const collectHosts = 20

// measureCollect measures kubectl windows collect: from a Windows host, and from many simulated ones at once compared with one.
func measureCollect(ctx context.Context, s *sheet) error {
	if err := lab.PreferMemory(); err != nil {
		return err
	}
	if err := lab.CanRunWindows(); err != nil {
		s.say("Skipping Windows hosts: %v", err)
	} else if err := measureCollectWindows(ctx, s); err != nil {
		return err
	}
	st, err := openStage(ctx, s, testenv.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	c := crowd{st}
	if err := c.grow(ctx, collectHosts); err != nil {
		return err
	}
	for i, h := range c.Simulated() {
		stop, err := c.ServeLogs(ctx, h, c.Hosts()[i])
		if err != nil {
			return err
		}
		defer stop()
	}
	one, err := c.collect(ctx, c.Hosts()[0].Name)
	if err != nil {
		return err
	}
	all, err := c.collect(ctx, "--all")
	if err != nil {
		return err
	}
	s.number("collect.seconds_1_simulated", one, "s")
	s.number(fmt.Sprintf("collect.seconds_%d_simulated", collectHosts), all, "s")
	s.number(fmt.Sprintf("collect.seconds_%d_over_1", collectHosts), all/one, "ratio")
	return nil
}

// measureCollectWindows collects from a host with the real programs.
func measureCollectWindows(ctx context.Context, s *sheet) error {
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1})
	if err != nil {
		return err
	}
	defer st.Close()
	hosts, err := st.fresh(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	seconds, err := st.collect(ctx, "--all")
	if err != nil {
		return err
	}
	s.number("collect.seconds_per_host", seconds, "s")
	return nil
}

// collect is the median of the seconds of some collections.
func (st *stage) collect(ctx context.Context, hosts string) (float64, error) {
	plugin, err := st.Plugin(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "wmco-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var seconds []float64
	for range rounds {
		began := time.Now()
		r, err := plugin.Run(ctx, "collect", hosts, "-o", filepath.Join(dir, "case.zip"))
		if err != nil || r.Code != 0 {
			return 0, fmt.Errorf("collecting: exit code %d, %w\n%s", r.Code, err, r.All())
		}
		seconds = append(seconds, time.Since(began).Seconds())
	}
	return median(seconds), nil
}
