package pods

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// probe runs the probes of the container until ctx ends: the startup probe until it has succeeded, then the others. It sends the reason for which the container must
// be restarted to unhealthy.
func (p *pod) probe(ctx context.Context, unhealthy chan<- error) {
	c := p.container()
	if c.StartupProbe != nil {
		until, stop := context.WithCancel(ctx)
		started := false
		p.each(until, c.StartupProbe, func(failures int, err error) {
			if started = err == nil; started {
				stop()
			} else if failures == p.threshold(c.StartupProbe) {
				unhealthy <- fmt.Errorf("startup probe: %w", err)
				stop()
			}
		})
		stop()
		if !started {
			return
		}
	}
	var others sync.WaitGroup
	defer others.Wait()
	if c.LivenessProbe != nil {
		others.Go(func() {
			live, stop := context.WithCancel(ctx)
			defer stop()
			p.each(live, c.LivenessProbe, func(failures int, err error) {
				switch {
				case p.isDeleted():
					stop()
				case failures == p.threshold(c.LivenessProbe):
					unhealthy <- fmt.Errorf("liveness probe: %w", err)
					stop()
				}
			})
		})
	}
	if c.ReadinessProbe == nil {
		p.setReady(true)
		return
	}
	p.each(ctx, c.ReadinessProbe, func(failures int, err error) {
		if err == nil {
			p.setReady(true)
		} else if failures == p.threshold(c.ReadinessProbe) {
			p.setReady(false)
		}
	})
}

// each makes the requests of a probe until ctx ends. result gets the error of each, and how many failed since the last success.
func (p *pod) each(ctx context.Context, of *probe, result func(failures int, err error)) {
	tick := time.NewTicker(p.cluster.delay(cmp.Or(of.PeriodSeconds, 10)))
	defer tick.Stop()
	failures := 0
	for {
		err := p.request(ctx, of)
		if ctx.Err() != nil {
			return
		}
		if failures++; err == nil {
			failures = 0
		}
		result(failures, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// request makes one request, which succeeds with a status from 200 to 399.
func (p *pod) request(ctx context.Context, of *probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(of.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	status, err := roletest.Status(ctx, "http://"+net.JoinHostPort(p.ip, strconv.Itoa(p.container().port(of.HTTPGet.Port)))+of.HTTPGet.Path)
	if err == nil && (status < 200 || status >= 400) {
		err = fmt.Errorf("%s: status %d", of.HTTPGet.Path, status)
	}
	return err
}

// threshold returns how many failures in a row count. It grows with the speed, because the time until then is a timeout.
func (p *pod) threshold(of *probe) int { return cmp.Or(of.FailureThreshold, 3) * p.cluster.cfg.Speed }
