// Command manifests writes what operators apply to a directory: the definitions of the custom resources, each overlay, and the chart.
//
//	manifests ../.tools/manifests
//
// With -json it writes the objects of one overlay to its standard output, as a JSON array.
//
//	manifests -json k8s/overlays/production
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tailrace/tailrace/deploy/internal/render"
)

func main() {
	overlay := flag.String("json", "", "overlay whose objects are written to the standard output")
	flag.Parse()
	var err error
	if *overlay != "" {
		err = writeJSON(os.Stdout, *overlay)
	} else {
		err = write(context.Background(), flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// writeJSON writes the objects of an overlay.
func writeJSON(w io.Writer, overlay string) error {
	objects, err := render.Kustomize(overlay)
	if err != nil {
		return err
	}
	list := make([]map[string]any, len(objects))
	for i, o := range objects {
		list[i] = o.Fields
	}
	return json.NewEncoder(w).Encode(list)
}

// write writes a file for each set of objects. The names have the order in which they are applied.
func write(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // public
		return err
	}
	definitions, err := render.CustomResources(ctx)
	if err != nil {
		return err
	}
	sets := map[string][]render.Object{"0-definitions": definitions}
	for name, overlay := range map[string]string{
		"1-dev": "k8s/overlays/dev", "2-production": "k8s/overlays/production", "3-autoscale": "k8s/overlays/autoscale", "4-gateway": "testdata/gateway",
		"6-sink": "testdata/sink", "7-sink-directory": "testdata/sink-directory",
	} {
		if sets[name], err = render.Kustomize(overlay); err != nil {
			return err
		}
	}
	on := map[string]any{"enabled": true}
	if sets["5-chart"], err = render.Chart("helm/tailrace", "tailrace-chart", map[string]any{"autoscale": on, "monitoring": on, "route": on, "sink": on}); err != nil {
		return err
	}
	for name, objects := range sets {
		var text bytes.Buffer
		for _, o := range objects {
			text.WriteString("---\n")
			text.Write(o.YAML)
			text.WriteString("\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), text.Bytes(), 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	return nil
}
