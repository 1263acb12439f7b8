package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user of the processes, with the number that the manifests have too.
const (
	user   = "65532:65532"
	userID = 65532
)

// maxBinary is the size of a binary beyond which something is linked that does not belong there: symbols, tests, or all of a large library (ADR 0035).
const maxBinary = 60_000_000

// binary is the program for a platform.
type binary struct {
	name     string
	platform v1.Platform
	info     *buildinfo.BuildInfo
	data     []byte
}

// readBinary reads a binary and checks that it is for the platform.
func readBinary(platform, path string) (binary, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return binary{}, err
	}
	data, err := os.ReadFile(path) //nolint:gosec // the argument of the user
	if err != nil {
		return binary{}, err
	}
	if len(data) > maxBinary {
		return binary{}, fmt.Errorf("the binary has %d bytes, want at most %d", len(data), maxBinary)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return binary{}, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != p.OS || settings["GOARCH"] != p.Architecture {
		return binary{}, fmt.Errorf("the binary is for %s/%s", settings["GOOS"], settings["GOARCH"])
	}
	return binary{platform: *p, info: info, data: data}, nil
}

// checkStatic checks that a binary runs without a C library, which the image does not have.
func (b binary) checkStatic() error {
	program, err := elf.NewFile(bytes.NewReader(b.data))
	if err != nil {
		return err
	}
	if libraries, err := program.ImportedLibraries(); err == nil && len(libraries) > 0 {
		return fmt.Errorf("the binary needs %v; build it with CGO_ENABLED=0", libraries)
	}
	return nil
}

// build returns the image for all platforms.
func build(binaries []binary, version string, created time.Time) (multi, error) {
	m := multi{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	system, err := systemLayer(created)
	if err != nil {
		return m, err
	}
	for _, b := range binaries {
		img, err := imageOf(b, system, version, created)
		if err != nil {
			return m, err
		}
		m.index = mutate.AppendManifests(m.index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &b.platform}})
		bom, err := billOfMaterials(b, version, created)
		if err != nil {
			return m, err
		}
		attached, err := attach(img, bom)
		if err != nil {
			return m, err
		}
		m.boms, m.attached = append(m.boms, bom), append(m.attached, attached)
	}
	return m, nil
}

func imageOf(b binary, system v1.Layer, version string, created time.Time) (v1.Image, error) {
	entries := []entry{{name: b.name, mode: 0o755, data: b.data}}
	if b.name == "tailrace" {
		entries = append(entries, entry{name: "data/", mode: 0o700, owner: userID})
	}
	program, err := layer(created, entries...)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := func(what string) v1.History { return v1.History{Created: v1.Time{Time: created}, CreatedBy: what} }
	img, err := mutate.Append(base, mutate.Addendum{Layer: system, History: history("certificates, user")}, mutate.Addendum{Layer: program, History: history(b.name + " " + version)})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	ports, volumes, env := map[string]struct{}{"4481/tcp": {}}, map[string]struct{}(nil), []string{"PATH=/"}
	if b.name == "tailrace" { // which has an edge, and a NATS server for up
		ports["4480/tcp"], volumes = struct{}{}, map[string]struct{}{"/data": {}}
		env = append(env, "TAILRACE_LISTEN=:4480", "TAILRACE_OPS_LISTEN=:4481", "TAILRACE_DATA_DIR=/data")
	}
	file.OS, file.Architecture, file.Variant, file.Created = b.platform.OS, b.platform.Architecture, b.platform.Variant, v1.Time{Time: created}
	file.Config = v1.Config{
		Entrypoint: []string{"/" + b.name}, User: user, WorkingDir: "/", Env: env, StopSignal: "SIGTERM",
		ExposedPorts: ports, Volumes: volumes,
		Labels: map[string]string{
			"org.opencontainers.image.title":   b.name,
			"org.opencontainers.image.version": version,
			"org.opencontainers.image.source":  "https://github.com/tailrace/tailrace",
			"org.opencontainers.image.created": created.UTC().Format(time.RFC3339),
		},
	}
	return mutate.ConfigFile(img, file)
}

// systemLayer has what a static binary needs of an operating system. Authorities with a constraint are left out, because a file of certificates cannot express it.
func systemLayer(created time.Time) (v1.Layer, error) {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return layer(created,
		entry{name: "etc/", mode: 0o755}, entry{name: "etc/passwd", mode: 0o644, data: []byte("tailrace:x:65532:65532::/:/none\n")}, entry{name: "etc/group", mode: 0o644, data: []byte("tailrace:x:65532:\n")},
		entry{name: "etc/ssl/", mode: 0o755}, entry{name: "etc/ssl/certs/", mode: 0o755}, entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates.Bytes()},
	)
}

// entry is a file of a layer, or a directory if its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

func layer(created time.Time, entries ...entry) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		kind := byte(tar.TypeReg)
		if e.data == nil {
			kind = tar.TypeDir
		}
		err := w.WriteHeader(&tar.Header{Typeflag: kind, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: created, Format: tar.FormatPAX})
		if _, writeErr := w.Write(e.data); err != nil || writeErr != nil {
			return nil, errors.Join(err, writeErr)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// attach returns the bill of materials as an artifact that refers to an image, by which registries list it as a referrer.
func attach(img v1.Image, bom []byte) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	artifact, err := mutate.AppendLayers(base, static.NewLayer(bom, spdxType))
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	attached, ok := mutate.Subject(artifact, *subject).(v1.Image)
	if !ok {
		return nil, errors.New("the bill of materials is not an image")
	}
	return attached, nil
}
