package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Chart renders a chart as `helm template` does.
func Chart(dir, namespace string, values map[string]any) ([]Object, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: chart.Name(), Namespace: namespace, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		found, err := documents([]byte(files[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// documents returns the objects of a file, without its empty documents.
func documents(text []byte) (objects []Object, err error) {
	parts := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for {
		part := make([]byte, len(text))
		n, err := parts.Read(part)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		json, err := utilyaml.ToJSON(part[:n])
		if err != nil {
			return nil, err
		}
		if bytes.Equal(bytes.TrimSpace(json), []byte("null")) {
			continue
		}
		object, err := parse(part[:n])
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
