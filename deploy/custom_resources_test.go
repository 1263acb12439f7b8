package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/tailrace/tailrace/deploy/internal/render"
)

// scaledObject is KEDA's resource, as far as it is checked here. Its Go types need 600 packages, so its objects are checked with its definition.
type scaledObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ScaleTargetRef  struct{ Name string } `json:"scaleTargetRef"`
		MinReplicaCount int32                 `json:"minReplicaCount"`
		MaxReplicaCount int32                 `json:"maxReplicaCount"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
		Advanced struct {
			Config struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
	} `json:"spec"`
}

// decodeScaledObject checks an object with the schema of its definition, in which a member that the schema does not have is an error.
func decodeScaledObject(t *testing.T, o render.Object) *scaledObject {
	t.Helper()
	if err := customSchema(t, "ScaledObject").Validate(o.Fields); err != nil {
		t.Fatalf("%v\n%s", err, o.YAML)
	}
	var s scaledObject
	if err := yaml.Unmarshal(o.YAML, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// customSchema returns the schema of a custom resource.
func customSchema(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	definitions, err := render.CustomResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		var definition struct {
			Spec struct {
				Names    struct{ Kind string } `json:"names"`
				Versions []struct {
					Schema struct {
						OpenAPI map[string]any `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(d.YAML, &definition); err != nil {
			t.Fatal(err)
		}
		if definition.Spec.Names.Kind != kind {
			continue
		}
		schema := definition.Spec.Versions[0].Schema.OpenAPI
		closeObjects(schema)
		delete(schema["properties"].(map[string]any), "metadata") // of every object; the API server has its schema
		schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(kind, schema); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile(kind)
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	t.Fatalf("no definition of %s", kind)
	return nil
}

// closeObjects forbids members that a structural schema does not have, as the API server does under strict validation.
func closeObjects(schema map[string]any) {
	properties, ok := schema["properties"].(map[string]any)
	if ok && schema["additionalProperties"] == nil && schema["x-kubernetes-preserve-unknown-fields"] == nil {
		schema["additionalProperties"] = false
	}
	for _, member := range properties {
		closeObjects(member.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			closeObjects(inner)
		}
	}
}

// checkScaling checks that an autoscaler has a target whose manifest has no number of replicas, that it removes pods slowly, and that its metric exists.
func checkScaling(t *testing.T, m *manifests) {
	t.Helper()
	metrics := registered(t)
	behaviors := map[string]*autoscalingv2.HorizontalPodAutoscalerBehavior{}
	for _, h := range m.scalers {
		behaviors[h.Spec.ScaleTargetRef.Name] = h.Spec.Behavior
		for _, metric := range h.Spec.Metrics {
			if metric.Type == autoscalingv2.PodsMetricSourceType && !metrics[metric.Pods.Metric.Name] {
				t.Errorf("HorizontalPodAutoscaler/%s: metric %s does not exist", h.Name, metric.Pods.Metric.Name)
			}
		}
	}
	for _, s := range m.scaled {
		behaviors[s.Spec.ScaleTargetRef.Name] = &s.Spec.Advanced.Config.Behavior
		for _, trigger := range s.Spec.Triggers {
			for _, name := range []string{"natsServerMonitoringEndpoint", "account", "stream", "consumer", "lagThreshold"} {
				if trigger.Type != "nats-jetstream" || trigger.Metadata[name] == "" {
					t.Errorf("ScaledObject/%s: trigger %s without %s", s.Metadata.Name, trigger.Type, name)
				}
			}
		}
	}
	for target, behavior := range behaviors {
		i := slices.IndexFunc(m.deployments, func(d *appsv1.Deployment) bool { return d.Name == target })
		if i < 0 {
			t.Errorf("an autoscaler has the target %s, which does not exist", target)
			continue
		}
		if m.deployments[i].Spec.Replicas != nil {
			t.Errorf("Deployment/%s has replicas, which each upgrade would reset", target)
		}
		down := behavior.ScaleDown
		if down == nil || down.StabilizationWindowSeconds == nil || *down.StabilizationWindowSeconds < 300 || len(down.Policies) != 1 ||
			down.Policies[0].Type != autoscalingv2.PodsScalingPolicy || down.Policies[0].Value != 1 || down.Policies[0].PeriodSeconds < 60 {
			t.Errorf("the autoscaler of %s removes pods as %+v, want one at a time", target, down)
		}
	}
}

// registered returns the names of the metrics that the programs register, and of the series of its histograms.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	type metric struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	var all []metric
	for _, file := range []string{"metrics.json", "sink-metrics.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []metric
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	names := map[string]bool{}
	for _, m := range all {
		names[m.Name] = true
		if m.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[m.Name+suffix] = true
			}
		}
	}
	return names
}

// checkMonitoring checks that each pod with probes is scraped, and that alerts and dashboards use metrics that exist.
func checkMonitoring(t *testing.T, m *manifests) {
	t.Helper()
	for _, monitor := range m.podMonitors {
		for _, d := range m.deployments {
			if !selects(t, &monitor.Spec.Selector, d.Spec.Template.Labels) {
				t.Errorf("PodMonitor/%s does not select %s", monitor.Name, d.Name)
			}
			for _, end := range monitor.Spec.PodMetricsEndpoints {
				if end.Port == nil || !hasPort(&d.Spec.Template, intstr.FromString(*end.Port)) {
					t.Errorf("PodMonitor/%s: %s has no port %v", monitor.Name, d.Name, end.Port)
				}
			}
		}
	}
	metrics, word := registered(t), regexp.MustCompile(`\btailrace_[a-z0-9_]+`)
	check := func(where, text string) {
		for _, name := range word.FindAllString(text, -1) {
			if !metrics[name] {
				t.Errorf("%s: metric %s does not exist", where, name)
			}
		}
	}
	operations, err := os.ReadFile("../docs/guides/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	check("docs/guides/operate.md", string(operations))
	for _, r := range m.rules {
		for _, group := range r.Spec.Groups {
			for _, rule := range group.Rules {
				check("alert "+rule.Alert, rule.Expr.StrVal+rule.Annotations["description"])
				checkAlert(t, rule)
				if !strings.Contains(string(operations), "`"+rule.Alert+"`") {
					t.Errorf("docs/guides/operate.md lacks the alert %s", rule.Alert)
				}
			}
		}
	}
	if board := m.configMaps["tailrace-dashboard"]; board != nil {
		check("dashboard", board.Data["tailrace.json"])
	} else if len(m.podMonitors) > 0 {
		t.Error("no dashboard")
	}
}

func checkAlert(t *testing.T, rule monitoringv1.Rule) {
	t.Helper()
	if rule.Alert == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" ||
		!slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]) {
		t.Errorf("alert %+v", rule)
	}
}

// checkRoutes checks that routes lead to a port of a service, that event streams have no timeout there, and that a route replaces the ingress.
func checkRoutes(t *testing.T, m *manifests) {
	t.Helper()
	for _, route := range m.routes {
		if len(m.ingresses) > 0 {
			t.Error("there are a route and an ingress")
		}
		for _, rule := range route.Spec.Rules {
			if rule.Timeouts == nil || rule.Timeouts.Request == nil || *rule.Timeouts.Request != "0s" || rule.Timeouts.BackendRequest == nil || *rule.Timeouts.BackendRequest != "0s" {
				t.Errorf("HTTPRoute/%s: timeouts %+v end streams", route.Name, rule.Timeouts)
			}
			for _, backend := range rule.BackendRefs {
				found := false
				for _, s := range m.services {
					for _, port := range s.Spec.Ports {
						found = found || s.Name == string(backend.Name) && backend.Port != nil && port.Port == *backend.Port
					}
				}
				if !found {
					t.Errorf("HTTPRoute/%s: no service %s with that port", route.Name, backend.Name)
				}
			}
		}
	}
}

// TestUnknownMemberOfCustomResource checks that a misspelled member is an error.
func TestUnknownMemberOfCustomResource(t *testing.T) {
	err := customSchema(t, "ScaledObject").Validate(map[string]any{"spec": map[string]any{
		"scaleTargetRef": map[string]any{"name": "a", "kinds": "b"}, "triggers": []any{},
	}})
	if err == nil || !strings.Contains(err.Error(), "kinds") {
		t.Errorf("an unknown member: %v", err)
	}
}
