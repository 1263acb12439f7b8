// Package render builds the objects of Kubernetes that operators apply.
package render

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Object is one object of a manifest.
type Object struct {
	Kind, Name string
	YAML       []byte
	Fields     map[string]any
}

// String is the kind and the name of the object.
func (o Object) String() string { return o.Kind + "/" + o.Name }

// Kustomize builds a directory as `kubectl apply -k` does.
func Kustomize(dir string) ([]Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var objects []Object
	for _, res := range built.Resources() {
		text, err := res.AsYAML()
		if err != nil {
			return nil, err
		}
		object, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func parse(text []byte) (Object, error) {
	o := Object{YAML: text}
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.UnmarshalStrict(text, &o.Fields); err != nil {
		return o, fmt.Errorf("%w in\n%s", err, text)
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return o, err
	}
	o.Kind, o.Name = head.Kind, head.Metadata.Name
	if o.Kind == "" || o.Name == "" {
		return o, fmt.Errorf("no kind or no name in\n%s", text)
	}
	return o, nil
}
