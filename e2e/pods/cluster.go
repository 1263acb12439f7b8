package pods

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Config configures a Cluster.
type Config struct {
	// Manifests is a JSON array of objects.
	Manifests []byte

	// Program is the path of the program of the image.
	Program string

	// Hosts has the addresses of services that are not in the manifests, such as "nats:4222", and what takes their place in arguments and variables.
	Hosts map[string]string

	// Secrets and ConfigMaps are those that operators create by hand, by name and key. ConfigMaps of the manifests have precedence.
	Secrets, ConfigMaps map[string]map[string]string

	// Variables are added to the config maps of the manifests, as operators do in their overlays.
	Variables map[string]string

	// Speed divides the delays of the manifests: minReadySeconds, the sleep of preStop hooks, the periods of probes, the backoff of restarts, and the variables
	// in Delays. Timeouts and grace periods remain. 0 is 1.
	Speed int

	// Delays are names of environment variables whose value is a delay.
	Delays []string
}

// propagation is the delay with which the endpoints of a service follow the state of a pod.
const propagation = time.Second

// backoff is the delay of the second restart of a container. It doubles up to maxBackoff.
const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// Cluster runs the objects of manifests.
type Cluster struct {
	cfg     Config
	objects *manifest
	dir     string // of the files of the volumes
	network string // first three bytes of the addresses of pods

	ctx  context.Context //nolint:containedctx // ends with the test
	work sync.WaitGroup

	jobs        []*pod
	deployments map[string]*Deployment

	mu       sync.Mutex // guards the fields below
	pods     []*pod     // in the order of their start, also those that have ended
	failures []string
}

// Start applies the manifests: it starts all jobs and deployments at once. The processes end with the test, which fails for each failure of Failures.
func Start(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	objects, err := parse(cfg.Manifests)
	if err != nil {
		tb.Fatal(err)
	}
	for _, data := range objects.configMaps {
		maps.Copy(data, cfg.Variables)
	}
	cfg.Speed = max(1, cfg.Speed)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	c := &Cluster{cfg: cfg, objects: objects, dir: tb.TempDir(), network: freeNetwork(tb), ctx: ctx, deployments: make(map[string]*Deployment)}
	tb.Cleanup(func() {
		cancel()
		c.work.Wait()
		for _, failure := range c.failures {
			tb.Error(failure)
		}
		if tb.Failed() {
			c.showLogs(tb)
		}
	})
	for _, object := range objects.jobs {
		c.jobs = append(c.jobs, c.newPod(object.Metadata.Name, c.prepare(tb, object.head, object.Spec.Template)))
	}
	for _, object := range objects.deployments {
		c.deployments[object.Metadata.Name] = newDeployment(c, object, c.prepare(tb, object.head, object.Spec.Template))
	}
	for i, p := range c.jobs {
		c.work.Go(func() { c.runJob(p, objects.jobs[i]) })
	}
	for _, d := range c.deployments {
		c.work.Go(d.reconcileLoop)
	}
	return c
}

// prepared is the template of pods whose volumes have been written.
type prepared struct {
	podTemplate

	paths []string // of mounts and what replaces them, in pairs
}

// prepare writes the files of the volumes of a template. The paths of mounts are replaced in the files, too.
func (c *Cluster) prepare(tb testing.TB, h head, template podTemplate) prepared {
	tb.Helper()
	spec := template.Spec
	if n := len(spec.Containers); n != 1 {
		tb.Fatalf("%s %s has %d containers, want 1", h.Kind, h.Metadata.Name, n)
	}
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		tb.Fatalf("%s %s has variables of services, want enableServiceLinks: false", h.Kind, h.Metadata.Name)
	}
	out := prepared{podTemplate: template}
	files := make(map[string]map[string]string) // by directory
	for _, m := range spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v volume) bool { return v.Name == m.Name })
		if i < 0 {
			tb.Fatalf("%s %s mounts volume %s, which it does not have", h.Kind, h.Metadata.Name, m.Name)
		}
		dir, data := c.source(spec.Volumes[i])
		if data == nil {
			tb.Fatalf("%s %s: the source of volume %s is missing", h.Kind, h.Metadata.Name, m.Name)
		}
		files[dir] = data
		out.paths = append(out.paths, m.MountPath, dir)
	}
	replace := strings.NewReplacer(out.paths...)
	for dir, data := range files {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			tb.Fatal(err)
		}
		for name, text := range data {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(replace.Replace(text)), 0o600); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return out
}

// source returns the directory and the data of a volume.
func (c *Cluster) source(v volume) (dir string, data map[string]string) {
	if v.Secret != nil {
		return filepath.Join(c.dir, "secret", v.Secret.SecretName), c.cfg.Secrets[v.Secret.SecretName]
	}
	if v.ConfigMap != nil {
		return filepath.Join(c.dir, "configmap", v.ConfigMap.Name), c.configMap(v.ConfigMap.Name)
	}
	return "", nil
}

func (c *Cluster) configMap(name string) map[string]string {
	if data := c.objects.configMaps[name]; data != nil {
		return data
	}
	return c.cfg.ConfigMaps[name]
}

// freeNetwork returns the first three bytes of a part of the loopback range that no process listens in, at least not on its first address.
func freeNetwork(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		network := fmt.Sprintf("127.%d.%d.", 16+rand.IntN(200), rand.IntN(256))
		l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", network+"1:4480")
		if err == nil {
			if err := l.Close(); err != nil {
				tb.Fatal(err)
			}
			return network
		}
	}
	tb.Fatal("no free part of the loopback range")
	return ""
}

// Deployment returns the deployment with this name.
func (c *Cluster) Deployment(tb testing.TB, name string) *Deployment {
	tb.Helper()
	d := c.deployments[name]
	if d == nil {
		tb.Fatalf("no deployment %q, have %q", name, slices.Sorted(maps.Keys(c.deployments)))
	}
	return d
}

// AwaitAvailable waits until each deployment has its replicas in the current version and no others, and each of them has been ready for minReadySeconds.
func (c *Cluster) AwaitAvailable(tb testing.TB) {
	tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(c.deployments)) {
		c.deployments[name].AwaitAvailable(tb)
	}
}

// AwaitJobs waits until all jobs have ended.
func (c *Cluster) AwaitJobs(tb testing.TB) {
	tb.Helper()
	for _, p := range c.jobs {
		natstest.Receive(tb, "the end of "+p.name, p.ended)
	}
}

// Restarts returns how many containers were restarted so far, because they had exited or their liveness probe had failed.
func (c *Cluster) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.pods {
		n += p.restartCount()
	}
	return n
}

// failf records what must not happen.
func (c *Cluster) failf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *Cluster) showLogs(tb testing.TB) {
	tb.Helper()
	const most = 4000
	for _, p := range c.pods {
		log := p.log.String()
		if len(log) > most {
			log = "…" + log[len(log)-most:]
		}
		tb.Logf("log of %s on %s:\n%s", p.name, p.ip, log)
	}
}

// delay returns the duration of a delay of the manifests in this cluster.
func (c *Cluster) delay(seconds int) time.Duration {
	return c.divided(time.Duration(seconds) * time.Second)
}

func (c *Cluster) divided(d time.Duration) time.Duration { return d / time.Duration(c.cfg.Speed) }

// newPod adds a pod, which the caller runs.
func (c *Cluster) newPod(owner string, template prepared) *pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.pods) + 1
	p := &pod{
		cluster: c, name: fmt.Sprintf("%s-%d", owner, n), ip: c.network + strconv.Itoa(n), template: template, deleted: make(chan struct{}), ended: make(chan struct{}),
		outages: make(chan chan struct{}, 1),
	}
	pairs := slices.Clone(template.paths)
	for _, host := range slices.Sorted(maps.Keys(c.cfg.Hosts)) {
		pairs = append(pairs, host, c.cfg.Hosts[host])
	}
	p.replace = strings.NewReplacer(pairs...)
	c.pods = append(c.pods, p)
	return p
}

// runJob runs the pod of a job until it succeeds.
func (c *Cluster) runJob(p *pod, object *jobObject) {
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(object.Spec.ActiveDeadlineSeconds)*time.Second)
	defer cancel()
	if err := p.complete(ctx, object.Spec.BackoffLimit); err != nil && c.ctx.Err() == nil {
		c.failf("job %s: %v", object.Metadata.Name, err)
	}
}
