package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

// pod is a container that runs as a process, and its restarts.
type pod struct {
	cluster  *Cluster
	name     string
	ip       string
	template prepared
	replace  interface{ Replace(string) string } // paths of mounts and hosts
	log      outputtest.Buffer

	deleted chan struct{}      // closed by delete
	outages chan chan struct{} // of the node; the channel in it is closed when the node is back
	ended   chan struct{}      // closed when the process has exited after delete
	routed  atomic.Bool        // services connect to it

	mu       sync.Mutex // guards the fields below
	deleting bool
	ready    bool
	readyAt  time.Time // when it became ready
	restarts int
}

func (p *pod) container() *container { return &p.template.Spec.Containers[0] }

// delete begins the termination of the pod.
func (p *pod) delete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deleting {
		p.deleting = true
		close(p.deleted)
		p.propagate()
	}
}

func (p *pod) isDeleted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deleting
}

func (p *pod) setReady(ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != ready {
		p.ready, p.readyAt = ready, time.Now()
		p.propagate()
	}
}

// propagate has the services know the state of the pod after the delay of a cluster.
func (p *pod) propagate() {
	time.AfterFunc(p.cluster.divided(propagation), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.routed.Store(p.ready && !p.deleting)
	})
}

func (p *pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready && !p.deleting
}

// isAvailable reports whether the pod has been ready for a duration.
func (p *pod) isAvailable(since time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready && !p.deleting && time.Since(p.readyAt) >= since
}

func (p *pod) restartCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
}

// errOutage is the end of a container whose node had an outage.
var errOutage = errors.New("outage of the node")

// run runs the container until the pod is deleted or the test ends. A container that exits is restarted: immediately at first, then with a backoff.
func (p *pod) run(ctx context.Context) {
	defer close(p.ended)
	defer p.setReady(false)
	wait := time.NewTimer(0)
	defer wait.Stop()
	next := p.cluster.divided(backoff)
	for n := 0; ; n++ {
		select {
		case <-wait.C:
		case <-p.deleted:
			return
		case <-ctx.Done():
			return
		}
		err := p.runContainer(ctx)
		p.setReady(false)
		if p.isDeleted() || ctx.Err() != nil {
			return
		}
		_, _ = fmt.Fprintf(&p.log, "the container exited: %v\n", err)
		if errors.Is(err, errOutage) {
			n = -1 // a node that is back starts its containers
		} else {
			p.mu.Lock()
			p.restarts++
			p.mu.Unlock()
		}
		if n <= 0 {
			wait.Reset(0)
			continue
		}
		wait.Reset(next)
		next = min(2*next, p.cluster.divided(maxBackoff))
	}
}

// complete runs the container of a job until it has succeeded, with at most limit repetitions.
func (p *pod) complete(ctx context.Context, limit int) error {
	defer close(p.ended)
	next := p.cluster.divided(backoff)
	for n := 0; ; n++ {
		err := p.runContainer(ctx)
		if err == nil {
			return nil
		}
		if n == limit || ctx.Err() != nil {
			return fmt.Errorf("after %d repetitions: %w", n, err)
		}
		_, _ = fmt.Fprintf(&p.log, "the container exited: %v\n", err)
		select {
		case <-time.After(next):
		case <-ctx.Done():
		}
		next = min(2*next, p.cluster.divided(maxBackoff))
	}
}

// runContainer runs the process and its probes until it exits, the liveness probe fails, or the pod is deleted.
func (p *pod) runContainer(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, err := p.command()
	if err != nil {
		p.cluster.failf("%s: %v", p.name, err)
		<-ctx.Done() // a cluster reports the error of the configuration and waits
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	unhealthy := make(chan error, 1)
	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Go(func() { p.probe(ctx, unhealthy) })
	defer cancel() // before the wait for the probes
	select {
	case err := <-exited:
		return err
	case cause := <-unhealthy:
		return errors.Join(cause, p.terminate(ctx, cmd, exited))
	case back := <-p.outages:
		_ = cmd.Process.Kill() // it may have exited
		err := errors.Join(errOutage, <-exited)
		p.mu.Lock()
		p.ready = false // the services are not informed
		p.mu.Unlock()
		select {
		case <-back:
		case <-p.deleted:
		case <-ctx.Done():
		}
		return err
	case <-p.deleted:
		err := p.terminate(ctx, cmd, exited)
		if err != nil && ctx.Err() == nil {
			p.cluster.failf("%s: exit after SIGTERM: %v\n%s", p.name, err, p.log.String())
		}
		return err
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have exited
		return errors.Join(ctx.Err(), <-exited)
	}
}

// terminate runs the preStop hook, sends SIGTERM, and SIGKILL at the end of the grace period, which begins before the hook.
func (p *pod) terminate(ctx context.Context, cmd *exec.Cmd, exited <-chan error) error {
	grace := time.NewTimer(time.Duration(p.template.Spec.TerminationGracePeriodSeconds) * time.Second)
	defer grace.Stop()
	hook := time.NewTimer(0)
	defer hook.Stop()
	if h := p.container().Lifecycle.PreStop; h != nil {
		hook.Reset(p.cluster.delay(h.Sleep.Seconds))
	}
	for {
		select {
		case <-hook.C:
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have exited
		case err := <-exited:
			return err
		case <-grace.C:
			_ = cmd.Process.Kill() // it may have exited
			return errors.Join(errors.New("it was killed at the end of the grace period"), <-exited)
		case <-ctx.Done():
			_ = cmd.Process.Kill() // it may have exited
			return errors.Join(ctx.Err(), <-exited)
		}
	}
}

// command returns the process of the container.
func (p *pod) command() (*exec.Cmd, error) {
	c := p.container()
	env := map[string]string{"HOSTNAME": p.name}
	for _, from := range c.EnvFrom {
		var name string
		var data map[string]string
		switch {
		case from.ConfigMapRef != nil:
			name, data = from.ConfigMapRef.Name, p.cluster.configMap(from.ConfigMapRef.Name)
		case from.SecretRef != nil:
			name, data = from.SecretRef.Name, p.cluster.cfg.Secrets[from.SecretRef.Name]
		}
		if data == nil {
			return nil, fmt.Errorf("the variables of %q are missing", name)
		}
		maps.Copy(env, data)
	}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	var args, list []string
	for _, arg := range c.Args {
		args = append(args, p.local(arg))
	}
	for key, value := range env {
		if slices.Contains(p.cluster.cfg.Delays, key) {
			d, err := time.ParseDuration(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			value = p.cluster.divided(d).String()
		}
		list = append(list, key+"="+p.local(value))
	}
	slices.Sort(list)
	cmd := exec.Command(p.cluster.cfg.Program, args...) //nolint:gosec,noctx // of the manifest; run ends it
	cmd.Env, cmd.Stdout, cmd.Stderr = list, &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

// local returns the form of an argument or a variable outside of a container.
func (p *pod) local(value string) string {
	for _, port := range p.container().Ports {
		if value == fmt.Sprintf(":%d", port.ContainerPort) {
			return p.ip + value
		}
	}
	return p.replace.Replace(value)
}
