package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// reconcileInterval is the interval in which a deployment compares its pods with what it should have.
const reconcileInterval = 20 * time.Millisecond

// rolloutTimeout is the timeout of an update or of a change of the replicas.
const rolloutTimeout = 10 * time.Minute

// ErrBudget is the error of an eviction for which there are too few other pods that are ready.
var ErrBudget = errors.New("the pod disruption budget refuses the eviction")

// Deployment keeps a number of pods in the current version.
type Deployment struct {
	cluster  *Cluster
	object   *deploymentObject
	template prepared

	mu       sync.Mutex // guards the fields below
	replicas int
	revision int
	pods     []member // those that have not been deleted
	leaving  []*pod   // those that have been deleted
}

type member struct {
	*pod

	revision int
}

func newDeployment(c *Cluster, object *deploymentObject, template prepared) *Deployment {
	d := &Deployment{cluster: c, object: object, template: template, replicas: 1}
	if n := object.Spec.Replicas; n != nil {
		d.replicas = *n
	}
	return d
}

func (d *Deployment) reconcileLoop() {
	tick := time.NewTicker(reconcileInterval)
	defer tick.Stop()
	for {
		d.reconcile()
		select {
		case <-tick.C:
		case <-d.cluster.ctx.Done():
			return
		}
	}
}

// reconcile starts and deletes pods as far as maxSurge and maxUnavailable allow it now.
func (d *Deployment) reconcile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	update := d.object.Spec.Strategy.RollingUpdate
	surge := d.replicas
	if d.count(d.isOld) > 0 {
		surge += update.MaxSurge
	}
	for len(d.pods) < surge && d.count(d.isCurrent) < d.replicas {
		d.startPod()
	}
	for d.count(d.isCurrent) > d.replicas {
		d.deletePod(d.victim(d.isCurrent))
	}
	for d.count(d.isOld) > 0 {
		p := d.victim(d.isOld)
		if d.isAvailable(p) && d.count(d.isAvailable) <= d.replicas-update.MaxUnavailable {
			return
		}
		d.deletePod(p)
	}
}

func (d *Deployment) isCurrent(m member) bool { return m.revision == d.revision }
func (d *Deployment) isOld(m member) bool     { return m.revision != d.revision }

// isAvailable reports whether a pod has been ready for minReadySeconds.
func (d *Deployment) isAvailable(m member) bool {
	return m.isAvailable(d.cluster.delay(d.object.Spec.MinReadySeconds))
}

func (d *Deployment) count(of func(member) bool) int {
	n := 0
	for _, m := range d.pods {
		if of(m) {
			n++
		}
	}
	return n
}

// victim returns the pod that is deleted first: one that is not available, else the newest one.
func (d *Deployment) victim(of func(member) bool) member {
	var found member
	for _, m := range d.pods {
		if of(m) && (found.pod == nil || !d.isAvailable(m) || d.isAvailable(found)) {
			found = m
		}
	}
	return found
}

func (d *Deployment) startPod() {
	p := d.cluster.newPod(d.object.Metadata.Name, d.template)
	d.pods = append(d.pods, member{p, d.revision})
	d.cluster.work.Go(func() { p.run(d.cluster.ctx) })
}

func (d *Deployment) deletePod(m member) {
	m.delete()
	d.pods = slices.DeleteFunc(d.pods, func(other member) bool { return other == m })
	d.leaving = append(d.leaving, m.pod)
}

// Rollout replaces all pods, as an update of the image does.
func (d *Deployment) Rollout() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision++
}

// Scale changes the number of replicas.
func (d *Deployment) Scale(replicas int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = replicas
}

// Evict evicts the oldest pod, as a drain of its node does, or returns ErrBudget.
func (d *Deployment) Evict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, budget := range d.cluster.objects.budgets {
		if !budget.Spec.Selector.matches(d.object.Spec.Template.Metadata.Labels) {
			continue
		}
		healthy := d.count(func(m member) bool { return m.isReady() })
		if healthy-1 < d.replicas-budget.Spec.MaxUnavailable {
			return fmt.Errorf("%w: %d of %d pods are ready, and at most %d may be unavailable", ErrBudget, healthy, d.replicas, budget.Spec.MaxUnavailable)
		}
	}
	d.deletePod(d.pods[0])
	return nil
}

// Outage kills the oldest pod with SIGKILL, as an outage of its node does, and starts it again when restore is called. Services still have its address: Kubernetes
// finds out later than this lasts.
func (d *Deployment) Outage() (restore func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	back := make(chan struct{})
	d.pods[0].outages <- back
	return func() { close(back) }
}

// AwaitAvailable waits until the deployment has its replicas in the current version, each has been ready for minReadySeconds, and all other pods have exited.
func (d *Deployment) AwaitAvailable(tb testing.TB) {
	tb.Helper()
	natstest.Within(tb, rolloutTimeout, "the pods of "+d.object.Metadata.Name, func(context.Context) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leaving = slices.DeleteFunc(d.leaving, func(p *pod) bool {
			select {
			case <-p.ended:
				return true
			default:
				return false
			}
		})
		current := d.count(func(m member) bool { return d.isCurrent(m) && d.isAvailable(m) })
		if current != d.replicas || len(d.pods) != d.replicas || len(d.leaving) > 0 {
			return fmt.Errorf("%d of %d are available, %d are not deleted, %d are terminating", current, d.replicas, len(d.pods), len(d.leaving))
		}
		return nil
	})
}
