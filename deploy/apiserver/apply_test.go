// Package apiserver applies the manifests to a real kube-apiserver with etcd, both in the process of the test. It is a module of its own, because they are large.
package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	apiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
)

// TestApply applies each file of MANIFESTS with strict validation: an unknown or a repeated field, or a value that is not allowed, is an error, and so is a
// warning, such as one of a deprecated version. The controllers do not run, so the pods are created without being stored, which admits them: the namespaces
// enforce the restricted profile of pod security.
func TestApply(t *testing.T) {
	dir := os.Getenv("MANIFESTS")
	if dir == "" {
		t.Fatal("MANIFESTS is not set; run `make k8s`")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of manifests in %s, %v", len(files), dir, err)
	}
	c := start(t)
	for _, file := range files {
		objects := read(t, file)
		for _, o := range objects {
			c.apply(t, o)
		}
		if strings.Contains(file, "definitions") {
			c.awaitDefinitions(t, objects)
		}
		pods := 0
		for _, o := range objects {
			pods += c.admit(t, o)
		}
		t.Logf("%s: %d objects applied, %d pods admitted", filepath.Base(file), len(objects), pods)
	}
	c.refuses(t)
}

// cluster is the API server.
type cluster struct {
	config   *rest.Config
	dynamic  dynamic.Interface
	typed    kubernetes.Interface
	warnings *warnings
}

// warnings collects the warnings in the responses.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func start(t *testing.T) *cluster {
	t.Helper()
	store := testserver.NewTestConfig(t)
	testserver.RunEtcd(t, store)
	backend := storagebackend.NewDefaultConfig("/registry", nil)
	backend.Transport.ServerList = []string{store.ListenClientUrls[0].String()}
	// Nothing creates the default service accounts, which pods of this project do not use.
	server := apiservertesting.StartTestServerOrDie(t, nil, []string{"--disable-admission-plugins=ServiceAccount"}, backend)
	t.Cleanup(server.TearDownFn)
	c := &cluster{config: rest.CopyConfig(server.ClientConfig), warnings: &warnings{}}
	c.config.WarningHandler = c.warnings
	var err error
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.typed, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tailrace-chart", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := c.typed.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns the objects of a file.
func read(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := in.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// resource returns the client for the kind and the namespace of an object.
func (c *cluster) resource(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		t.Fatal(err)
	}
	kind := o.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Scope.Name() == "root" {
		return c.dynamic.Resource(mapping.Resource)
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

func (c *cluster) patch(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	text, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.resource(t, o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: "tailrace", Force: new(true), FieldValidation: metav1.FieldValidationStrict})
	return err
}

// apply applies an object on the side of the server.
func (c *cluster) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	c.warnings.texts = nil
	if err := c.patch(t, o); err != nil {
		t.Errorf("%s/%s: %v", o.GetKind(), o.GetName(), err)
	}
	for _, text := range c.warnings.texts {
		t.Errorf("%s/%s: %s", o.GetKind(), o.GetName(), text)
	}
}

// awaitDefinitions waits until the server serves the custom resources.
func (c *cluster) awaitDefinitions(t *testing.T, definitions []*unstructured.Unstructured) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, d := range definitions {
		for !established(t, c, d) {
			select {
			case <-ctx.Done():
				t.Fatalf("%s is not established", d.GetName())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func established(t *testing.T, c *cluster, d *unstructured.Unstructured) bool {
	t.Helper()
	stored, err := c.resource(t, d).Get(t.Context(), d.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, err := unstructured.NestedSlice(stored.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range conditions {
		if one, ok := one.(map[string]any); ok && one["type"] == "Established" && one["status"] == "True" {
			return true
		}
	}
	return false
}

// admit creates the pod of a controller without storing it, and returns the number of pods.
func (c *cluster) admit(t *testing.T, o *unstructured.Unstructured) int {
	t.Helper()
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		return 0
	}
	text, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(text, &pod); err != nil {
		t.Fatal(err)
	}
	pod.Name = "pod-of-" + o.GetName()
	if claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates"); len(claims) > 0 {
		for _, claim := range claims { // the controller of stateful sets adds the volumes
			name, _, _ := unstructured.NestedString(claim.(map[string]any), "metadata", "name")
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	_, err = c.typed.CoreV1().Pods(o.GetNamespace()).Create(t.Context(), &pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Errorf("pod of %s/%s: %v", o.GetKind(), o.GetName(), err)
	}
	return 1
}

// refuses checks that the server refuses what a strict validation is for, and a pod that is not restricted.
func (c *cluster) refuses(t *testing.T) {
	t.Helper()
	misspelled := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": map[string]any{"name": "a", "namespace": "tailrace"},
		"spec": map[string]any{"scaleTargetRef": map[string]any{"name": "a", "kinds": "b"}, "triggers": []any{}},
	}}
	if err := c.patch(t, misspelled); err == nil || !strings.Contains(err.Error(), "kinds") {
		t.Errorf("an unknown field of a custom resource: %v", err)
	}
	root := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "root"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	_, err := c.typed.CoreV1().Pods("tailrace").Create(t.Context(), root, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a pod that may run as root: %v", err)
	}
}
