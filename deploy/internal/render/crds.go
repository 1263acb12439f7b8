package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// definitions are the modules whose custom resources the manifests use, and the files with their definitions.
var definitions = []struct {
	module string
	files  []string
}{
	{"sigs.k8s.io/gateway-api@v1.6.3", []string{"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"}},
	{"github.com/prometheus-operator/prometheus-operator@v0.94.0", []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	}},
	{"github.com/kedacore/keda/v2@v2.21.0", []string{"config/crd/bases/keda.sh_scaledobjects.yaml"}},
}

// CustomResources returns the definitions of the custom resources. They are read from the modules of their projects, in the module cache of Go.
func CustomResources(ctx context.Context) ([]Object, error) {
	var objects []Object
	for _, d := range definitions {
		dir, err := moduleDir(ctx, d.module)
		if err != nil {
			return nil, err
		}
		for _, file := range d.files {
			text, err := os.ReadFile(filepath.Join(dir, file)) //nolint:gosec // of the list above
			if err != nil {
				return nil, err
			}
			object, err := parse(text)
			if err != nil {
				return nil, err
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// moduleDir returns the directory of a module, which is downloaded if necessary.
func moduleDir(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module) //nolint:gosec // of the list above
	cmd.Dir = os.TempDir()                                                    // outside of a module, whose requirements do not matter here
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var found struct {
		Dir   string `json:"Dir"`
		Error string `json:"Error"`
	}
	if jsonErr := json.Unmarshal(out, &found); jsonErr == nil && found.Error != "" {
		return "", errors.New(found.Error)
	}
	if err != nil {
		return "", fmt.Errorf("download of %s: %w", module, err)
	}
	return found.Dir, nil
}
