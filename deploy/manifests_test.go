// Package deploy tests the manifests of this directory. It is a module of its own, so that Tailrace does not depend on Kubernetes.
package deploy

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tailrace/tailrace/deploy/internal/render"
)

// overlays are the directories that operators apply.
var overlays = []string{"k8s/base", "k8s/overlays/dev", "k8s/overlays/production", "k8s/overlays/autoscale", "testdata/gateway", "testdata/sink", "testdata/sink-directory"}

// manifests are the objects of an overlay.
type manifests struct {
	deployments []*appsv1.Deployment
	statefuls   []*appsv1.StatefulSet
	jobs        []*batchv1.Job
	services    []*corev1.Service
	configMaps  map[string]*corev1.ConfigMap
	policies    []*networkingv1.NetworkPolicy
	ingresses   []*networkingv1.Ingress
	budgets     []*policyv1.PodDisruptionBudget
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	routes      []*gatewayv1.HTTPRoute
	podMonitors []*monitoringv1.PodMonitor
	rules       []*monitoringv1.PrometheusRule
	scaled      []*scaledObject
	claims      map[string]bool
	names       map[string]bool // kind/name
}

// workload is a pod template and what its controller adds to it.
type workload struct {
	name     string
	template *corev1.PodTemplateSpec
	serves   bool // it runs until it is stopped, so it has probes
}

func (m *manifests) workloads() (out []workload) {
	for _, d := range m.deployments {
		out = append(out, workload{"Deployment/" + d.Name, &d.Spec.Template, true})
	}
	for _, s := range m.statefuls {
		out = append(out, workload{"StatefulSet/" + s.Name, &s.Spec.Template, true})
	}
	for _, j := range m.jobs {
		out = append(out, workload{"Job/" + j.Name, &j.Spec.Template, false})
	}
	return out
}

// scheme has the types of all objects that the manifests use.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		autoscalingv2.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// overlay builds an overlay as `kubectl apply -k` does, and decodes its objects.
func overlay(t *testing.T, dir string) *manifests {
	t.Helper()
	objects, err := render.Kustomize(dir)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, objects)
}

// decode decodes each object strictly: an unknown or a repeated field is an error.
func decode(t *testing.T, objects []render.Object) *manifests {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	m := &manifests{configMaps: map[string]*corev1.ConfigMap{}, claims: map[string]bool{}, names: map[string]bool{}}
	for _, o := range objects {
		if m.names[o.String()] {
			t.Errorf("%s is there twice", o)
		}
		m.names[o.String()] = true
		if o.Kind == "ScaledObject" {
			m.scaled = append(m.scaled, decodeScaledObject(t, o))
			continue
		}
		obj, _, err := decoder.Decode(o.YAML, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, o.YAML)
		}
		m.add(t, obj)
	}
	return m
}

func (m *manifests) add(t *testing.T, obj runtime.Object) {
	t.Helper()
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		m.deployments = append(m.deployments, obj)
	case *appsv1.StatefulSet:
		m.statefuls = append(m.statefuls, obj)
	case *batchv1.Job:
		m.jobs = append(m.jobs, obj)
	case *corev1.Service:
		m.services = append(m.services, obj)
	case *corev1.ConfigMap:
		m.configMaps[obj.Name] = obj
	case *networkingv1.NetworkPolicy:
		m.policies = append(m.policies, obj)
	case *networkingv1.Ingress:
		m.ingresses = append(m.ingresses, obj)
	case *policyv1.PodDisruptionBudget:
		m.budgets = append(m.budgets, obj)
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.scalers = append(m.scalers, obj)
	case *gatewayv1.HTTPRoute:
		m.routes = append(m.routes, obj)
	case *monitoringv1.PodMonitor:
		m.podMonitors = append(m.podMonitors, obj)
	case *monitoringv1.PrometheusRule:
		m.rules = append(m.rules, obj)
	case *corev1.PersistentVolumeClaim:
		m.claims[obj.Name] = true
	case *corev1.Namespace, *corev1.ServiceAccount:
	default:
		t.Fatalf("%T is not checked by this test", obj)
	}
}

// settings returns the environment variables that Tailrace reads, from the reference, which a test writes.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open("../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	row, known := regexp.MustCompile("^\\| `(TAILRACE_[A-Z0-9_]+)` \\|"), map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if found := row.FindStringSubmatch(lines.Text()); found != nil {
			known[found[1]] = true
		}
	}
	if lines.Err() != nil || len(known) < 40 {
		t.Fatalf("%d settings in docs/reference/settings.md, %v", len(known), lines.Err())
	}
	return known
}

// TestManifests checks each rendered overlay.
func TestManifests(t *testing.T) {
	known := settings(t)
	for _, dir := range overlays {
		t.Run(strings.ReplaceAll(dir, "/", "_"), func(t *testing.T) {
			m := overlay(t, dir)
			for _, w := range m.workloads() {
				checkPod(t, w, m, known)
			}
			for _, d := range m.deployments {
				checkDeployment(t, d, m)
			}
			checkSelectors(t, m)
			checkScaling(t, m)
			checkMonitoring(t, m)
			checkRoutes(t, m)
		})
	}
}

// checkPod checks the isolation, the probes, the resources and the settings of a pod.
func checkPod(t *testing.T, w workload, m *manifests, known map[string]bool) {
	t.Helper()
	spec := w.template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s: pods get a token of their service account", w.name)
	}
	if s := spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: security context %+v", w.name, s)
	}
	if spec.TerminationGracePeriodSeconds == nil {
		t.Errorf("%s: the grace period is the default", w.name)
	}
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
		if v.PersistentVolumeClaim != nil && !m.claims[v.PersistentVolumeClaim.ClaimName] {
			t.Errorf("%s: claim %s does not exist", w.name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		name := w.name + " " + c.Name
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: security context %+v", name, s)
		}
		if c.Name == sinkContainer {
			checkSink(t, name, c)
		} else {
			checkMemory(t, name, c)
		}
		if w.serves {
			checkProbes(t, name, c)
		}
		for _, mount := range c.VolumeMounts {
			if !volumes[mount.Name] && w.name != "StatefulSet/nats" {
				t.Errorf("%s: volume %s does not exist", name, mount.Name)
			}
		}
		checkEnvironment(t, name, c, m, known)
	}
}

// checkMemory checks that Go's collector knows the limit of the container: GOMEMLIMIT is 90 % of it.
func checkMemory(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	limit, requested := c.Resources.Limits[corev1.ResourceMemory], c.Resources.Requests[corev1.ResourceMemory]
	if limit.IsZero() || requested.IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", name, c.Resources)
		return
	}
	soft, err := resource.ParseQuantity(strings.TrimSuffix(value(c, "GOMEMLIMIT"), "B"))
	if share := float64(soft.Value()) / float64(limit.Value()); err != nil || share > 0.901 || share < 0.85 {
		t.Errorf("%s: GOMEMLIMIT is %s of %s (%.3f, %v), want 0.9", name, value(c, "GOMEMLIMIT"), limit.String(), share, err)
	}
}

func checkProbes(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for kind, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.Type != intstr.String || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s: %s probe %+v", name, kind, probe)
		}
	}
}

// checkEnvironment checks that Tailrace has each setting, and that the config maps with settings exist.
func checkEnvironment(t *testing.T, name string, c *corev1.Container, m *manifests, known map[string]bool) {
	t.Helper()
	set := map[string]bool{}
	for _, e := range c.Env {
		set[e.Name] = c.Name != sinkContainer // which has settings of its own
	}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef == nil {
			continue // secrets are the operator's
		}
		source := m.configMaps[from.ConfigMapRef.Name]
		if source == nil {
			t.Errorf("%s: config map %s does not exist", name, from.ConfigMapRef.Name)
			continue
		}
		for key := range source.Data {
			set[key] = true
		}
	}
	for key, ofTailrace := range set {
		if ofTailrace && strings.HasPrefix(key, "TAILRACE_") && !known[key] {
			t.Errorf("%s: setting %s does not exist", name, key)
		}
	}
}

// value returns the value of an environment variable of a container.
func value(c *corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// checkDeployment checks that a rolling update or an eviction interrupts nothing.
func checkDeployment(t *testing.T, d *appsv1.Deployment, m *manifests) {
	t.Helper()
	pod := labels.Set(d.Spec.Template.Labels)
	hasClaim := slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	switch r := d.Spec.Strategy.RollingUpdate; {
	case hasClaim:
		if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *d.Spec.Replicas != 1 {
			t.Errorf("%s: strategy %+v, want one pod at a time for its volume", d.Name, d.Spec.Strategy)
		}
	case r == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() < 1:
		t.Errorf("%s: rolling update %+v", d.Name, r)
	}
	if len(d.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
		t.Errorf("%s: pods are not spread over zones", d.Name)
	}
	budgets := 0
	for _, b := range m.budgets {
		if selects(t, b.Spec.Selector, pod) {
			budgets++
		}
	}
	if budgets != 1 {
		t.Errorf("%s: %d disruption budgets, want 1", d.Name, budgets)
	}
	grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	for i := range d.Spec.Template.Spec.Containers {
		c := &d.Spec.Template.Spec.Containers[i]
		needs := 10 * time.Second
		if text := value(c, "TAILRACE_DRAIN"); text != "" {
			period, err := time.ParseDuration(text)
			if err != nil {
				t.Errorf("%s: TAILRACE_DRAIN: %v", d.Name, err)
			}
			needs += period
		}
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			needs += time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		}
		if grace < needs {
			t.Errorf("%s: the grace period is %s, its shutdown takes up to %s", d.Name, grace, needs)
		}
	}
}

// checkSelectors checks that each selector matches pods, that each controller owns its pods alone, and that pods can reach nothing unless a policy allows it.
func checkSelectors(t *testing.T, m *manifests) {
	t.Helper()
	pods := map[string]labels.Set{}
	for _, w := range m.workloads() {
		pods[w.name] = w.template.Labels
	}
	matches := func(what string, s *metav1.LabelSelector) (found []string) {
		for name, set := range pods {
			if selects(t, s, set) {
				found = append(found, name)
			}
		}
		if len(found) == 0 {
			t.Errorf("%s selects no pod", what)
		}
		return found
	}
	for _, d := range m.deployments {
		if own := matches("Deployment/"+d.Name, d.Spec.Selector); !slices.Equal(own, []string{"Deployment/" + d.Name}) {
			t.Errorf("Deployment/%s selects %q", d.Name, own)
		}
		for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
			matches("the spread of Deployment/"+d.Name, spread.LabelSelector)
		}
	}
	for _, s := range m.services {
		chosen := matches("Service/"+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		for _, w := range m.workloads() {
			for _, port := range s.Spec.Ports {
				if slices.Contains(chosen, w.name) && !hasPort(w.template, port.TargetPort) {
					t.Errorf("Service/%s: %s has no port %s", s.Name, w.name, port.TargetPort.String())
				}
			}
		}
	}
	for _, b := range m.budgets {
		matches("PodDisruptionBudget/"+b.Name, b.Spec.Selector)
	}
	denied := map[string]bool{}
	for _, p := range m.policies {
		chosen := matches("NetworkPolicy/"+p.Name, &p.Spec.PodSelector)
		if len(p.Spec.Ingress) == 0 && len(p.Spec.Egress) == 0 && len(p.Spec.PolicyTypes) == 2 {
			for _, name := range chosen {
				denied[name] = true
			}
		}
	}
	for name := range pods {
		if !denied[name] && name != "StatefulSet/nats" {
			t.Errorf("%s: no policy denies what is not allowed", name)
		}
	}
	for _, in := range m.ingresses {
		for _, rule := range in.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if backend := path.Backend.Service; !hasServicePort(m, backend) {
					t.Errorf("Ingress/%s: service %+v does not exist", in.Name, backend)
				}
			}
		}
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

func hasPort(pod *corev1.PodTemplateSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal || p.ContainerPort == port.IntVal })
	})
}

func hasServicePort(m *manifests, backend *networkingv1.IngressServiceBackend) bool {
	return slices.ContainsFunc(m.services, func(s *corev1.Service) bool {
		return s.Name == backend.Name && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == backend.Port.Name })
	})
}

// TestUnknownField checks that a misspelled field is an error.
func TestUnknownField(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	_, _, err := decoder.Decode([]byte("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selectors: {}}\n"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "selectors") {
		t.Errorf("an unknown field: %v", err)
	}
}
