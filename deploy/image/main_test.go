package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var platforms = []string{"linux/amd64", "linux/arm64"}

// compile returns the arguments of the command for a small program on both platforms.
func compile(t *testing.T) (args []string) {
	t.Helper()
	dir := t.TempDir()
	for _, platform := range platforms {
		_, arch, _ := strings.Cut(platform, "/")
		path := filepath.Join(dir, arch)
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/program")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		args = append(args, platform+"="+path)
	}
	return args
}

// TestImage reads the layout back that the command writes.
func TestImage(t *testing.T) {
	programs := compile(t)
	dir := filepath.Join(t.TempDir(), "image")
	args := append([]string{"-program", "tailrace-sink", "-version", "v1.2.3", "-created", "2026-01-02T03:04:05Z", "-out", dir}, programs...)
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1+len(platforms) || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("layout %+v", manifest)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	checkIndex(t, index)
	for _, d := range manifest.Manifests[1:] {
		checkAttached(t, all, index, d)
	}

	// The same input gives the same image.
	before := manifest.Manifests[0].Digest
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	again, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = again.IndexManifest(); err != nil || manifest.Manifests[0].Digest != before {
		t.Errorf("the second image is %v, %v, want %s", manifest.Manifests[0].Digest, err, before)
	}
}

func checkIndex(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range manifest.Manifests {
		found = append(found, d.Platform.String())
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := file.Config
		if file.OS+"/"+file.Architecture != d.Platform.String() || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/tailrace-sink"}) || len(c.Cmd) > 0 ||
			c.Labels["org.opencontainers.image.version"] != "v1.2.3" || file.Created.Year() != 2026 {
			t.Errorf("%s: config %+v", d.Platform, file)
		}
		checkFiles(t, img)
	}
	if !slices.Equal(found, platforms) {
		t.Errorf("platforms %q, want %q", found, platforms)
	}
}

// checkFiles checks the root of the image: a program that can be executed, certificates that can be parsed, and no shell.
func checkFiles(t *testing.T, img v1.Image) {
	t.Helper()
	files := map[string]*tar.Header{}
	content := mutate.Extract(img)
	defer content.Close()
	for in := tar.NewReader(content); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[strings.Trim(head.Name, "/")] = head
		if strings.HasSuffix(head.Name, ".crt") {
			text, err := io.ReadAll(in)
			if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(text) {
				t.Errorf("certificates: %v", err)
			}
			if n := bytes.Count(text, []byte("BEGIN CERTIFICATE")); n < 100 {
				t.Errorf("%d authorities, want more than 100", n)
			}
		}
	}
	if program := files["tailrace-sink"]; program == nil || program.Mode != 0o755 || program.Uid != 0 {
		t.Errorf("program %+v", program)
	}
	if len(files) != 7 || files["etc/passwd"] == nil || files["etc/ssl/certs/ca-certificates.crt"] == nil {
		t.Errorf("files %v", files)
	}
}

// checkAttached checks that a bill of materials refers to an image of the index, and has the modules of its binary.
func checkAttached(t *testing.T, all, index v1.ImageIndex, d v1.Descriptor) {
	t.Helper()
	artifact, err := all.Image(d.Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := artifact.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Config.MediaType != spdxType {
		t.Fatalf("manifest %+v", manifest)
	}
	img, err := index.Image(manifest.Subject.Digest)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var bom struct {
		Version  string `json:"spdxVersion"`
		Packages []struct {
			Name string `json:"name"`
		} `json:"packages"`
	}
	if err := json.NewDecoder(content).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range bom.Packages {
		names = append(names, p.Name)
	}
	if bom.Version != "SPDX-2.3" || !slices.Contains(names, "std") || file.Architecture == "amd64" && !slices.Contains(names, "sigs.k8s.io/yaml") {
		t.Errorf("%s: bill of materials %+v", file.Architecture, bom)
	}
}

// TestPush pushes to a registry and reads the image and its bill of materials from there.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/tailrace:v1.2.3"
	if err := run(t.Context(), append([]string{"-version", "v1.2.3", "-out", filepath.Join(t.TempDir(), "image"), "-push", target}, compile(t)...)); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(target)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		referrers, err := remote.Referrers(ref.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := referrers.IndexManifest(); err != nil || len(list.Manifests) != 1 {
			t.Errorf("%s has %+v, %v, want one bill of materials", d.Platform, list, err)
		}
	}
}

// TestBillOfMaterials writes only the bill of materials, of a binary that is for no image.
func TestBillOfMaterials(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "program.exe"), filepath.Join(dir, "program.spdx.json")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH=arm64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := run(t.Context(), []string{"-version", "v1.2.3", "-sbom", file, "windows/arm64=" + program}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"SPDX-2.3"`, "pkg:golang/stdlib@", "sbom/v1.2.3/tailrace-windows-arm64"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the bill of materials has no %s: %s", want, text)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// TestWrongBinaries checks that a binary for another platform or with too much in it is refused.
func TestWrongBinaries(t *testing.T) {
	args := compile(t)
	swapped := "linux/arm64=" + strings.TrimPrefix(args[0], "linux/amd64=")
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxBinary+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want at most":       {"-out", t.TempDir(), "linux/amd64=" + large},
		"is for linux/amd64": {"-out", t.TempDir(), swapped},
		"want -out":          {swapped},
		"and one":            append([]string{"-sbom", filepath.Join(t.TempDir(), "sbom")}, args...),
		"created":            {"-created", "today", "-out", t.TempDir(), swapped},
	} {
		if err := run(context.Background(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
