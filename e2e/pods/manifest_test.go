package pods

import (
	"strings"
	"testing"
)

// A manifest with something that no process gets is an error, so that a test with this package cannot pass without it.
func TestParseIsStrict(t *testing.T) {
	const container = `{"name":"edge","image":"i","args":["edge"],"env":[{"name":"A","value":"b"}]}`
	deployment := func(container string) string {
		return `[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"edge"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` + container + `]}}}}]`
	}
	m, err := parse([]byte(deployment(container)))
	if err != nil || len(m.deployments) != 1 {
		t.Fatalf("%d deployments, %v", len(m.deployments), err)
	}
	if got := m.deployments[0].Spec.Template.Spec.Containers[0].Env[0].Value; got != "b" {
		t.Errorf("variable %q", got)
	}
	for name, text := range map[string]string{
		"a hook that is run by a shell": deployment(strings.Replace(container, `"args"`, `"lifecycle":{"preStop":{"exec":{"command":["sleep"]}}},"args"`, 1)),
		"a variable from a field":       deployment(strings.Replace(container, `"value":"b"`, `"valueFrom":{"fieldRef":{}}`, 1)),
		"a command":                     deployment(strings.Replace(container, `"args"`, `"command":["sh"],"args"`, 1)),
		"another kind":                  `[{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"edge"}}]`,
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
