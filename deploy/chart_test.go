package deploy

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/deploy/internal/render"
)

// settingsName matches the name of the config map with the settings, whose hash is that of kustomize or of the chart.
var settingsName = regexp.MustCompile(`\btailrace-[a-z0-9]{10}"`)

// TestChart compares the objects of the chart with those of the overlays.
func TestChart(t *testing.T) {
	for dir, values := range map[string]map[string]any{
		"k8s/overlays/production": {},
		"k8s/overlays/autoscale":  {"autoscale": map[string]any{"enabled": true}, "monitoring": map[string]any{"enabled": true}},
		"testdata/sink":           {"sink": map[string]any{"enabled": true}},
		"testdata/sink-directory": {"sink": map[string]any{
			"enabled": true, "secret": "", "storage": "100Gi",
			"env": []any{map[string]any{"name": "TAILRACE_SINK_TO", "value": "/lake"}, map[string]any{"name": "TAILRACE_SINK_MEMORY", "value": "100663296"}},
		}},
		"testdata/gateway": {
			"ingress": map[string]any{"enabled": false}, "route": map[string]any{"enabled": true}, "clients": map[string]any{"namespace": "gateway"},
		},
	} {
		t.Run(strings.ReplaceAll(dir, "/", "_"), func(t *testing.T) {
			chart, err := render.Chart("helm/tailrace", "tailrace", values)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := render.Kustomize(dir)
			if err != nil {
				t.Fatal(err)
			}
			decode(t, chart)
			got, want := byName(t, chart), byName(t, overlay)
			delete(want, "Namespace/tailrace") // helm install --create-namespace
			for name, text := range want {
				if diff := cmp.Diff(text, got[name]); diff != "" {
					t.Errorf("%s of the chart differs from the overlay:\n%s", name, diff)
				}
			}
			for name := range got {
				if want[name] == "" {
					t.Errorf("%s is in the chart only", name)
				}
			}
		})
	}
}

// byName returns the objects as JSON by kind and name, without what differs by the tool.
func byName(t *testing.T, objects []render.Object) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, o := range objects {
		text, err := json.MarshalIndent(o.Fields, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(settingsName.ReplaceAllString(o.String()+`"`, `tailrace"`), `"`)
		all[name] = settingsName.ReplaceAllString(string(text), `tailrace"`)
	}
	return all
}
